"""Markdown: text, headings, fences and tables."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing import parse
from rag_pipeline.parsing.markdown import parse_markdown
from rag_pipeline.parsing.markdown_inline import heading_text


def paths(text: str) -> list[tuple[str, ...]]:
    return [section.heading_path for section in parse_markdown(text).sections]


def headings(text: str) -> list[str]:
    """The last heading of each section's path."""
    return [path[-1] for path in paths(text) if path]


def atoms(text: str) -> list[str]:
    parsed = parse_markdown(text)
    return [parsed.text[atom.start : atom.end] for atom in parsed.atoms]


class TestHeadings:
    @pytest.mark.parametrize(
        ("line", "title"),
        [
            ("# One", "One"), ("###### Six", "Six"), ("   ## Indented", "Indented"), ("#\tTab", "Tab"),
            ("## Closed ##", "Closed"),
            ("# C#", "C#"), ("# C# ##", "C#"), ("# F\\# \\#", "F# #"), ("# **Bold** and _slanted_", "Bold and slanted"),
            ("# [Link](http://x.y/z_(a)) text", "Link text"), ("# [Link][ref] `a*b*`", "Link a*b*"),
            ("# ![Logo](l.png)", "Logo"),
            ("# [![Badge](b.png)](u) Name", "Badge Name"), ("# Name {#anchor}", "Name"), ("# Name { #a .b }", "Name"),
            ("# Name ## {#a}", "Name"), ("# Name {: .b }", "Name"), ("# Using {name}", "Using {name}"),
            ("# a_b_c", "a_b_c"),
            ("# List\\<T\\>", "List<T>"), ("# Vec<String>", "Vec<String>"), ("# A <a id='x'></a>B", "A B"),
            ("# A &amp; B", "A & B"),
            ("# [Unreleased]", "[Unreleased]"), ("# 2 * 3 * 4", "2 * 3 * 4"), ("# `` a`b ``", "a`b"),
            ("# \\`a\\`", "`a`"),
            ("# <https://x.y>", "https://x.y"), ("# ~~old~~ new", "old new"), ("# Ⅰ 日本語", "Ⅰ 日本語"),
            ("One\n===", "One"), ("One\n---", "One"), ("One\n  -  ", "One"), ("Two\nlines\n=", "Two lines"),
            ("*A* b\n---", "A b"),
            ('<h2 align="center">Name</h2>', "Name"), ("<h1>\n  <img src='l.png'> Name\n</h1>", "Name"),
        ],
    )  # fmt: skip
    def test_is_a_heading(self, line: str, title: str) -> None:
        assert headings(f"before\n\n{line}\n\nafter") == [title]

    @pytest.mark.parametrize(
        "text",
        [
            "#hashtag", "####### seven", "    # code", "\t# code", "\\# escaped", "# ", "##", "text\n\n---\n\nmore",
            "- item\n---",
            "> quote\n---", "1. item\n===", "    code\n---", "| a |\n---", "***\n---", "[a]: /url\n===",
            "</div>\n---", "a\n --- b",
            "# <img src='x'>", "one\ntwo\nthree\nfour\n---",
        ],
    )  # fmt: skip
    def test_is_no_heading(self, text: str) -> None:
        assert headings(f"{text}\n\nafter") == []

    def test_both_kinds_nest_by_their_levels(self) -> None:
        assert paths("Top\n===\na\n\nSub\n---\nb\n\n### Deep\nc\n") == [("Top",), ("Top", "Sub"), ("Top", "Sub", "Deep")]

    def test_a_section_begins_with_the_heading_and_its_underlined_lines(self) -> None:
        parsed = parse_markdown("intro\n\nTwo\nlines\n-----\ntext\n")
        assert [parsed.text[section.start : section.end] for section in parsed.sections] == [
            "intro\n\n",
            "Two\nlines\n-----\ntext\n",
        ]


class TestFences:
    @pytest.mark.parametrize(
        "fence",
        [
            "```\n# no\n```", "~~~\n# no\n~~~", "````md\n```\n# no\n```\n````",
            "```python title=\"app.py\" {1,3}\n# no\n```",
            "``` {.sh #id}\n# no\n`````", "~~~ `x` ~~~\n# no\n```\n~~~", "   ```\n# no\n   ```", "```\n# no\n  ```  ",
            "- item\n\n  ```sh\n  # no\n  ```", "1. item\n\n   ```sh\n# no, carelessly indented\n   ```",
            "- ```\n  # no\n  ```",
            "* a\n    * b\n\n      ```\n      # no\n      ```", "> ```\n> # no\n> ```", "```\n\n\n# no\n\n```",
        ],
    )  # fmt: skip
    def test_nothing_in_a_fence_is_a_heading_and_what_follows_is(self, fence: str) -> None:
        text = f"# First\n\n{fence}\n\n# Second\n\ntext\n"
        assert headings(text) == ["First", "Second"]
        (atom,) = atoms(text)
        assert "no" in atom
        assert "Second" not in atom
        assert atom.strip().endswith(("```", "~~~"))

    def test_a_fence_that_is_never_closed_runs_to_the_end(self) -> None:
        text = "# A\n\n```\n# no\n\n~~~\n# no\n"
        assert headings(text) == ["A"]
        assert atoms(text) == [text[5:]]

    def test_a_fence_in_a_list_ends_with_the_list(self) -> None:
        assert headings("- item\n\n  ```\n  code\n\n# Next\n\n```python\n# no\n```\n") == ["Next"]

    def test_a_fence_in_a_quote_ends_with_the_quote(self) -> None:
        assert headings("> ```\n> code\n\n# Next\ntext") == ["Next"]

    @pytest.mark.parametrize("text", ["``` code ``` and more", "    ```\n    example", "``\nno", "text ```"])
    def test_is_no_fence(self, text: str) -> None:
        assert headings(f"{text}\n\n# Next\nx") == ["Next"]
        assert atoms(f"{text}\n\n# Next\nx") == []

    @pytest.mark.parametrize(
        "block",
        [
            "<!-- # no\n# no\n\n# no -->", "<!--> text", "<pre>\n# no\n</pre>", "<script>\n\n# no\n</script>",
            "<STYLE media='x'>\n# no\n</STYLE>",
        ],
    )  # fmt: skip
    def test_comments_and_verbatim_html_hold_no_headings(self, block: str) -> None:
        assert headings(f"{block}\n# Next\n\ntext") == ["Next"]

    def test_a_comment_sign_in_code_hides_nothing(self) -> None:
        assert headings("Write `<!--` to begin.\n\n# Next\ntext") == ["Next"]


class TestTables:
    TABLE = "| Name | Size |\n|:-----|-----:|\n| a | 1 |\n| b | 2 |"

    def test_a_table_is_an_atom(self) -> None:
        assert atoms(f"before\n\n{self.TABLE}\n\nafter") == [self.TABLE]

    def test_outer_bars_may_be_left_out(self) -> None:
        assert atoms("a | b\n--- | ---\n1 | 2\n\nafter") == ["a | b\n--- | ---\n1 | 2"]

    def test_in_a_fence_it_is_a_part_of_the_fence(self) -> None:
        assert atoms(f"```\n{self.TABLE}\n```") == [f"```\n{self.TABLE}\n```"]

    def test_a_table_ends_before_a_fence(self) -> None:
        assert atoms(f"{self.TABLE}\n```\na | b\n```") == [self.TABLE, "```\na | b\n```"]


class TestDocument:
    def test_the_text_is_the_file_without_front_matter(self) -> None:
        parsed = parse(b"\xef\xbb\xbf---\r\ntitle: T\r\n---\r\n# A\r\n\r\n  text  \r\n", "a.md")
        assert parsed.text == "# A\n\n  text  \n"
        assert (parsed.title, parsed.metadata, parsed.media_type) == ("T", {"title": "T"}, "text/markdown")
        assert [section.heading_path for section in parsed.sections] == [("A",)]

    def test_a_mark_hides_no_heading(self) -> None:
        parsed = parse(b"\xef\xbb\xbf# Bare heading\n\ntext", "a.md")
        assert (parsed.title, parsed.sections[0].heading_path) == ("Bare heading", ("Bare heading",))
        assert "\ufeff" not in parsed.text

    @pytest.mark.parametrize(
        ("text", "title"),
        [
            ("---\ntitle: T\n---\n# A\n", "T"), ("---\ntitle: 1984\n---\n# A\n", "1984"),
            ("---\ntitle: [x]\n---\n# A\n", "A"),
            ("---\ntitle: ''\n---\n# A\n", "A"), ("---\ntitle: true\n---\n# A\n", "A"), ("## B\n# A\n# C\n", "A"),
            ("## B\n", None),
            ("text", None), ("---\ntitle: |\n  two\n  lines\n---\nx", "two lines"),
            ("---\ntitle: 2024-05-01\n---\nx", "2024-05-01"),
        ],
    )  # fmt: skip
    def test_the_title_comes_from_front_matter_or_the_first_top_heading(self, text: str, title: str | None) -> None:
        assert parse_markdown(text).title == title

    def test_front_matter_alone_is_no_document(self) -> None:
        with pytest.raises(ParseError, match="front matter, but no text"):
            parse(b"---\ntitle: T\n---\n \n", "a.md")

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "text",
        [
            "  ```\n  ```\n" * 80_000, "- a\n  ```\n" * 40_000, "    ```\n" * 60_000, "- a\n\n  ```x\n  b\n" * 40_000,
            "- a\n" + "  x\n  ```\n  ```\n" * 40_000, "> ```\n" * 80_000, "<pre>\n" * 100_000, "a\n-\n" * 60_000,
            "|a|\n|-|\n" * 60_000, "#" * 1_000_000, "---\n" * 100_000, "<!--\n" * 100_000, "<h1 >\n" * 50_000,
        ],
    )  # fmt: skip
    def test_hostile_text_takes_time_in_proportion_to_its_length(self, text: str) -> None:
        started = time.process_time()
        parse_markdown(text)
        assert time.process_time() - started < 5


class TestProperties:
    LINES = st.sampled_from(
        [
            "", "text", "# A", "## B ##", "Setext", "===", "---", "- item", "  - nested", "1. one", "   indented",
            "    code",
            "```", "```py x=1", "   ```", "~~~", "- ```", "> ```", "> q", "<!-- c", "-->", "<pre>", "</pre>",
            "| a | b |",
            "|---|---|", "\t", "\u2028", "<h1>x</h1>",
        ]
    )  # fmt: skip

    @given(st.lists(LINES, min_size=1, max_size=14).map("\n".join))
    def test_sections_and_atoms_are_in_order_and_in_range(self, text: str) -> None:
        if not text.strip():
            return
        try:
            parsed = parse_markdown(text)
        except ParseError:
            assert text.startswith("---")
            return
        assert text.endswith(parsed.text)
        check_spans(parsed)

    @given(st.text(alphabet="#*_`[](){}<>!\\&;a ~-|\n\ue000\ue0010"))
    def test_a_title_is_one_line_and_is_found_for_any_source(self, raw: str) -> None:
        title = heading_text(raw)
        assert title == " ".join(title.split())


def check_spans(parsed: Parsed) -> None:
    """Sections cover every visible character once; sections and atoms are in order and within the text."""
    for spans in (parsed.sections, parsed.atoms):
        ends = [0, *(span.end for span in spans)]
        assert all(end <= span.start < span.end <= len(parsed.text) for end, span in zip(ends, spans, strict=False))
    covered = "".join(parsed.text[section.start : section.end] for section in parsed.sections)
    assert "".join(covered.split()) == "".join(parsed.text.split())
