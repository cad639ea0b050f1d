"""HTML: every visible word of the content, in readable lines."""

from __future__ import annotations

import time

import pytest

from rag_pipeline.errors import ParseError
from rag_pipeline.parsing import parse
from rag_pipeline.parsing.html import parse_html

PROSE = "The ferry crosses the river every day except on Sundays, when the ferryman visits his sister in the town. " * 4


def text(html: str) -> str:
    return parse_html(html).text


class TestWords:
    def test_text_in_the_body_and_around_line_breaks_is_kept_apart(self) -> None:
        html = (
            "<html><body>\nopening words\n<div>hello<br/>after the break</div>"
            "<p>before<br>\nbehind</p>\ntail words\n</body></html>"
        )
        assert text(html) == "opening words\n\nhello\nafter the break\n\nbefore\nbehind\n\ntail words"

    @pytest.mark.parametrize(
        ("html", "expected"),
        [
            ("one <b>two</b><i>three</i>", "one twothree"),
            ("<p>one</p>two<p>three", "one\n\ntwo\n\nthree"),
            ("<div>a<div>b</div>c</div>", "a\n\nb\n\nc"),
            ("<p>Done &amp; dusted: 3 &lt; 4&nbsp;&euro;.</p>", "Done & dusted: 3 < 4 €."),
            ("<p>a\n   b\t c</p>", "a b c"),
            ("<p>soft&shy;hyphen</p>", "softhyphen"),
            ("<p>x<sup>2</sup> H<sub>2</sub>O</p>", "x2 H2O"),
            ("<p>a<br><br><br><br>b</p>", "a\n\nb"),
            ("<p>a<img src=x alt='a picture'>b</p>", "a a picture b"),
            ("<dl><dt>Term<dd>Meaning</dl>", "Term\n\nMeaning"),
            ("<blockquote><p>Said.</p></blockquote>", "Said."),
            ("<details><summary>More</summary>hidden until asked for</details>", "More\n\nhidden until asked for"),
            ("<center>old <font size=2>page</font></center>", "old page"),
            ("no tags at all", "no tags at all"),
            ("<p>&#0;a&#xD800;b", "\ufffda\ufffdb"),
            ("<p>日本<b>語</b>", "日本語"),
        ],
    )
    def test_words_come_out_as_they_are_seen(self, html: str, expected: str) -> None:
        assert text(html) == expected

    @pytest.mark.parametrize(
        "hidden",
        [
            "<script>x()</script>", "<style>p{}</style>", "<!-- secret -->", "<template><p>secret</p></template>",
            "<noscript>secret</noscript>", "<p hidden>secret</p>", "<p style='color: red; display : none'>secret</p>",
            "<p style='visibility:hidden'>secret</p>", "<span aria-hidden='true'>secret</span>",
            "<svg><text>secret</text></svg>",
            "<select><option>secret</select>", "<button>secret</button>", "<head><meta content='secret'></head>",
            "<iframe>secret</iframe>",
        ],
    )  # fmt: skip
    def test_what_is_hidden_is_no_text(self, hidden: str) -> None:
        assert text(f"<p>seen</p>{hidden}<p>also</p>") == "seen\n\nalso"

    @pytest.mark.parametrize("shown", ["<div role=tabpanel hidden>tab</div>", "<div hidden=until-found>tab</div>"])
    def test_what_a_click_shows_is_text(self, shown: str) -> None:
        assert "tab" in text(f"<p>seen</p>{shown}")


class TestStructure:
    def test_headings_stand_on_lines_of_their_own_and_make_sections(self) -> None:
        parsed = parse_html("<p>Before.</p><h1>Guide</h1><h2>Install <em>it</em></h2><p>Run.</p><h4>Deep</h4>x<h2>Use</h2>y")
        assert parsed.text == "Before.\n\n# Guide\n\n## Install it\n\nRun.\n\n#### Deep\n\nx\n\n## Use\n\ny"
        assert [section.heading_path for section in parsed.sections] == [
            (), ("Guide", "Install it"), ("Guide", "Install it", "Deep"), ("Guide", "Use"),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "heading",
        [
            "<h2>Install<a class='headerlink' href='#install'>¶</a></h2>", "<h2><a href='#i'>#</a> Install</h2>",
            "<h2><a href='#i'></a>Install</h2>", "<h2><a href='x.html'>Install</a></h2>", "<h2>\n Install<br></h2>",
            "<h2>Install<span class='mw-editsection'>[<a href='e'>edit</a>]</span></h2>",
        ],
    )  # fmt: skip
    def test_a_permanent_link_is_no_part_of_a_heading(self, heading: str) -> None:
        assert parse_html(f"{heading}<p>x").sections[0].heading_path == ("Install",)

    def test_a_heading_that_was_never_closed_swallows_no_text(self) -> None:
        parsed = parse_html(f"<h1>Title<p>{PROSE}</p><p>{PROSE}</p>")
        assert parsed.text.count("ferryman") == 8
        assert not parsed.text.startswith("#")

    def test_lists_are_written_with_dashes_or_their_numbers(self) -> None:
        html = "<p>Do:</p><ul><li>one<li><p>two</p><p>more</p><ol><li>a</li><li>b<br>c</li></ol></li></ul><p>Done.</p>"
        assert text(html) == "Do:\n\n- one\n- two\n  more\n  1. a\n  2. b\n    c\n\nDone."
        assert text('<ol start=3><li>a<li><ul><li>b</ul><li value="7">c<li>d</ol>') == "3. a\n  - b\n7. c\n8. d"
        assert text('<ol start="ten"><li>a</ol>') == "1. a"

    def test_code_keeps_its_lines(self) -> None:
        html = "<p>Use:</p><pre>if ready:\n    start()\n        .again()\n\n\tstop()   \n</pre><p>x</p>"
        parsed = parse_html(html)
        assert parsed.text == "Use:\n\n```\nif ready:\n    start()\n        .again()\n\n\tstop()   \n```\n\nx"
        (atom,) = parsed.atoms
        assert parsed.text[atom.start : atom.end].startswith("```\nif ready")
        assert parsed.text[atom.start : atom.end].endswith("\n```")

    @pytest.mark.parametrize(
        ("html", "expected"),
        [
            ("<pre><code class='language-python'>x = 1</code></pre>", "```python\nx = 1\n```"),
            ("<div class='highlight-c++'><div class=highlight><pre>int x;</pre></div></div>", "```c++\nint x;\n```"),
            ("<pre class='lang-js'><span>a</span>\n<span>b</span></pre>", "```js\na\nb\n```"),
            ("<pre>a<br>  b</pre>", "```\na\n  b\n```"),
            ("<pre><code><div>a</div><div>  b</div></code></pre>", "```\na\n  b\n```"),
            ("<pre>\n\n  a</pre>", "```\n  a\n```"),
            (
                "<pre><span class=lineno>1 </span>a\n<span class=lineno>2 </span>b<button>Copy</button></pre>",
                "```\na\nb\n```",
            ),
            ("<pre>```\nx\n```</pre>", "````\n```\nx\n```\n````"),
            ("<pre>a &lt;b&gt; &amp;c</pre>", "```\na <b> &c\n```"),
            ("<div style='white-space: pre'>a\n  b</div>", "```\na\n  b\n```"),
            ("<textarea>a\n  b</textarea>", "```\na\n  b\n```"),
            ("<ul><li>x<pre>a\n  b</pre></ul>", "- x\n\n```\na\n  b\n```"),
            (
                "<table><tr><td class=linenos><pre>1\n2</pre><td class=code><pre>a\n  b</pre></table>",
                "```\na\n  b\n```",
            ),
        ],
    )
    def test_code_is_found_in_many_dresses(self, html: str, expected: str) -> None:
        assert text(html) == expected

    def test_readings_beside_the_characters_of_a_word_do_not_part_it(self) -> None:
        page = "<p><ruby>汽<rp>(</rp><rt>き</rt><rp>)</rp>車<rt>しゃ</rt></ruby>です</p>"
        assert parse_html(page).text == "汽車です"

    def test_code_in_a_cell_does_not_cost_the_row_under_a_header(self) -> None:
        page = "<table><tr><th>Option<th>Example</tr><tr><td>port<td><pre>port = 5</pre></tr></table>"
        assert parse_html(page).text == "Option | Example\nport | port = 5"

    def test_a_table_is_written_row_by_row(self) -> None:
        parsed = parse_html(
            "<table><caption>Fares</caption><thead><tr><th>Who<th>Price</thead>"
            "<tr><td>Adult<td>2<br>coins<tr><td>Child<td><p>free</p></table><p>after"
        )
        assert parsed.text == "Fares\n\nWho | Price\nAdult | 2 coins\nChild | free\n\nafter"
        (atom,) = parsed.atoms
        assert parsed.text[atom.start : atom.end] == "Who | Price\nAdult | 2 coins\nChild | free"

    @pytest.mark.parametrize(
        "table",
        [
            f"<table><tr><td>menu<td><h2>Head</h2><p>{PROSE}</table>",
            f"<table><tr><td><table><tr><td>menu</table><td>{PROSE}</table>",
            f"<table role=presentation><tr><td>menu<td>{PROSE}</table>",
            f"<table><tr><td>menu<td>{PROSE * 5}</table>",
        ],
    )
    def test_a_table_that_lays_out_the_page_is_no_table(self, table: str) -> None:
        parsed = parse_html(table)
        assert " | " not in parsed.text
        assert parsed.text.startswith("menu")
        assert "ferryman" in parsed.text


class TestContent:
    SIDE = "".join(f"<li><a href='p{number}'>Page {number}</a></li>" for number in range(40))

    @pytest.mark.parametrize(
        "page",
        [
            "<header><a href=/>Site</a></header><nav><ul>{side}</ul></nav><main><h1>T</h1>{prose}</main>"
            "<aside>{side}</aside><footer>Imprint</footer>",
            "<div role=navigation>{side}</div><article><h1>T</h1>{prose}</article><div role=contentinfo>Imprint</div>",
            "<div class=menu><ul>{side}</ul></div><div class=body><h1>T</h1>{prose}</div>",
            "<form action=/search><label>Imprint</label><input></form><nav>{side}</nav><h1>T</h1>{prose}",
        ],
    )  # fmt: skip
    def test_navigation_and_frames_of_the_page_are_left_out(self, page: str) -> None:
        assert text(page.format(side=self.SIDE, prose=PROSE)) == f"# T\n\n{PROSE.strip()}"

    def test_headers_asides_and_footers_within_the_content_are_kept(self) -> None:
        article = f"<header><h1>T</h1></header>{PROSE}<aside>Note well.</aside><footer>By Kim.</footer>"
        assert text(f"<main><article>{article}</article></main>") == f"# T\n\n{PROSE.strip()}\n\nNote well.\n\nBy Kim."

    def test_a_header_with_the_only_title_is_kept(self) -> None:
        assert text(f"<header><h1>T</h1></header><p>{PROSE}").startswith("# T\n")

    def test_a_form_around_the_page_hides_nothing(self) -> None:
        assert text(f"<form id=aspnetForm><h1>T</h1><p>{PROSE}</form>") == f"# T\n\n{PROSE.strip()}"

    def test_a_page_of_links_keeps_them(self) -> None:
        assert text(f"<h1>All pages</h1><ul>{self.SIDE}</ul>").count("Page ") == 40

    def test_a_page_that_is_navigation_only_keeps_it(self) -> None:
        assert text(f"<nav><ul>{self.SIDE}</ul></nav>").count("Page ") == 40

    def test_a_main_with_next_to_nothing_is_not_preferred(self) -> None:
        assert "ferryman" in text(f"<main>x</main><div>{PROSE}</div>")

    def test_of_many_articles_all_are_kept(self) -> None:
        assert text(f"<article>{PROSE}</article><article>Second.</article>").endswith("Second.")

    @pytest.mark.parametrize(
        "page",
        ["", "<html></html>", "<title>T</title>", "<script>x</script>", "<img src=x>", "<p> &nbsp; </p>", "<p hidden>x"],
    )
    def test_a_page_without_text_is_refused(self, page: str) -> None:
        with pytest.raises(ParseError):
            parse(page.encode() or b" ", "a.html")


class TestTitleAndMetadata:
    def test_they_come_from_the_head(self) -> None:
        parsed = parse_html(
            "<html lang=de><head><title> A\n title </title><meta name=Description content=' About  it '></head>"
            "<h1>A title</h1>x"
        )
        assert parsed.title == "A title"
        assert parsed.metadata == {"lang": "de", "description": "About it"}
        assert parsed.media_type == "text/html"

    @pytest.mark.parametrize(
        ("page", "title"),
        [
            ("<h1>Head</h1><p>x", "Head"), ("<h2>Sub</h2><p>x", None), ("<title></title><h1>Head</h1>x", "Head"),
            ("<p>x", None),
            ("<svg><title>icon</title></svg><h1>Head</h1>x", "Head"),
        ],
    )  # fmt: skip
    def test_without_a_title_the_first_top_heading_is_it(self, page: str, title: str | None) -> None:
        assert parse_html(page).title == title

    def test_a_title_that_no_heading_says_stands_above_the_text(self) -> None:
        parsed = parse_html("<title>Fares</title><p>Two coins.<h2>Children</h2>Free.")
        assert parsed.text == "# Fares\n\nTwo coins.\n\n## Children\n\nFree."
        assert [section.heading_path for section in parsed.sections] == [("Fares",), ("Fares", "Children")]

    def test_a_title_that_differs_from_the_top_headings_stands_above_them(self) -> None:
        parsed = parse_html("<title>The ferry</title><h1>Fares</h1>Two.<h1>Times</h1>Noon.")
        assert [section.heading_path for section in parsed.sections] == [("The ferry", "Fares"), ("The ferry", "Times")]

    def test_a_title_with_the_name_of_the_site_is_not_said_twice(self) -> None:
        assert text("<title>Fares - The ferry</title><h1>Fares</h1>Two.") == "# Fares\n\nTwo."


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        "<div>" * 200_000 + "x", "<span>word " * 180_000, "<b>word " * 180_000, "<ul><li>" * 100_000 + "x",
        "<a " + " ".join(f"a{number}=1" for number in range(200_000)) + ">x</a>",
        "<p>" + "".join(f"<font size={number}>" for number in range(3_000)) + "<p>x" * 20_000,
        "<table><tr><td>" * 30_000 + "x",
        "<ul>" * 450 + "<li>x" * 20_000, "<article>x</article>" * 20_000 + "<nav>n</nav>" * 20_000,
        "<title>t</title>" + "<h1>x</h1>" * 20_000 + "<nav>n</nav>" * 20_000, "<b>x" + "<!--" * 100_000,
        "<p>x<script>" + "<" * 400_000,
    ],
    ids=lambda page: page[:12],
)  # fmt: skip
def test_hostile_pages_end_in_seconds_and_keep_their_text(page: str) -> None:
    started = time.process_time()
    parsed = parse_html(page)
    assert time.process_time() - started < 6
    assert parsed.text.count("word") == page.count("word")
    assert len(parsed.text) < 5 * len(page)


class TestOtherPages:
    def test_many_comments_before_a_page_cost_no_more_than_they_are_long(self) -> None:
        """Where they could be told apart in several ways, the time would double with each."""
        page = "<!-- a --> " * 300 + "<p>words</p>"
        assert text(page) == "words"
        with pytest.raises(ParseError, match="does not look like one"):
            parse(page.encode(), "a.pdf")

    def test_declarations_of_a_document_type_are_no_text(self) -> None:
        page = '<!DOCTYPE html [<!ENTITY b "bee"> <!ENTITY % x SYSTEM "http://example.org/x">]><html><p>words</p></html>'
        assert text(page) == "words"
        of_xhtml = page.replace("<html>", '<html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head>')
        assert text(of_xhtml) == "words"

    def test_empty_elements_of_xhtml_swallow_nothing(self) -> None:
        page = (
            '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="x"/></head>'
            '<body><p>before<a id="q"/> the anchor</p><div/><p><![CDATA[1 < 2]]></p></body></html>'
        )
        assert text(page) == "before the anchor\n\n1 < 2"

    def test_a_page_of_frames_shows_what_is_for_browsers_without_them(self) -> None:
        assert "Enter here." in text("<frameset cols='1,2'><frame src=a><noframes><p>Enter here.</noframes></frameset>")

    def test_cells_over_several_rows_and_columns_keep_the_others_in_line(self) -> None:
        page = (
            "<table><tr><th rowspan=2>Who<th colspan=2>Price<tr><th>2023<th>2024<tr><td rowspan=2>Adult<td>1<td>2"
            "<tr><td>3<td>4</table>"
        )
        assert text(page) == "Who | Price\nWho | 2023 | 2024\nAdult | 1 | 2\nAdult | 3 | 4"
