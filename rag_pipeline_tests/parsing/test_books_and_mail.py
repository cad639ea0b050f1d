"""EPUB books, mail, notebooks and source code."""

from __future__ import annotations

import base64
import json
from email.message import EmailMessage
from typing import Any

import pytest

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing import parse
from rag_pipeline_tests.parsing.documents import book
from rag_pipeline_tests.parsing.test_markdown import check_spans


def read(data: bytes | str, path: str) -> Parsed:
    parsed = parse(data.encode() if isinstance(data, str) else data, path)
    check_spans(parsed)
    return parsed


def chapter(title: str, text: str) -> str:
    return f"<?xml version='1.0'?><html><head><title/></head><body><h1>{title}</h1><p>{text}</p></body></html>"


CHAPTERS = {"b.xhtml": chapter("Ports", "North."), "a one.xhtml": chapter("Fares", "Adults pay.")}


class TestBooks:
    def test_chapters_come_in_the_order_of_the_spine(self) -> None:
        parsed = read(book(CHAPTERS, spine=["a one.xhtml", "b.xhtml"]), "a.epub")
        assert parsed.text == "# Fares\n\nAdults pay.\n\n# Ports\n\nNorth."
        assert [section.heading_path for section in parsed.sections] == [("Fares",), ("Ports",)]
        assert (parsed.title, parsed.metadata) == ("The Ferry", {"author": "A. Writer", "lang": "en"})

    @pytest.mark.parametrize("version", [2, 3])
    def test_a_chapter_without_a_heading_has_that_of_the_contents(self, version: int) -> None:
        body = "<html><body>{}</body></html>"
        pages = {
            "cover.xhtml": body.format("<img src='a.jpg'/>"),
            "a.xhtml": chapter("Fares", "Adults pay."),
            "b.xhtml": body.format("<p class='title'>The &amp;  Ports</p><p>North.</p>"),
            "c.xhtml": body.format("<p>South.</p>"),
            "c2.xhtml": body.format("<p>Further south.</p>"),
        }
        named = {"cover.xhtml": "Cover", "a.xhtml": "Of fares", "b.xhtml#top": "The &amp; Ports"}
        if version == 3:
            item, name = '<item id="nav" href="text/nav.xml" properties="nav"/>', "OPS/text/nav.xml"
            listed = "".join(f'<li><a href="../{page}">{title}</a></li>' for page, title in named.items())
            inner = '<ol><li><a href="../c.xhtml">The South</a></li></ol>'
            contents = (
                '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><body>'
                '<nav epub:type="landmarks"><ol><li><a href="../c2.xhtml">Start</a></li></ol></nav>'
                f'<nav epub:type="toc"><ol>{listed[:-5]}{inner}</li></ol></nav></body></html>'
            )
        else:
            item, name = '<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>', "OPS/toc.ncx"
            point = '<navPoint><navLabel><text>{}</text></navLabel><content src="{}"/>{}</navPoint>'
            inner = point.format("The South", "c.xhtml", "")
            points = [point.format(title, page, inner if "b.x" in page else "") for page, title in named.items()]
            contents = f"<ncx xmlns='http://www.daisy.org/z3986/2005/ncx/'><navMap>{''.join(points)}</navMap></ncx>"
        parsed = read(book(pages, items=item, members={name: contents}), "a.epub")
        assert parsed.text == ("# Fares\n\nAdults pay.\n\nThe & Ports\n\nNorth.\n\n## The South\n\nSouth.\n\nFurther south.")
        assert [section.heading_path for section in parsed.sections] == [
            ("Fares",), ("The & Ports",), ("The & Ports", "The South"),
        ]  # fmt: skip

    def test_declarations_of_a_chapter_are_no_text(self) -> None:
        page = (
            '<!DOCTYPE html [<!ENTITY b "bee">]><html xmlns="http://www.w3.org/1999/xhtml"><body><p>North.</p></body></html>'
        )
        assert read(book({"a.xhtml": page}), "a.epub").text == "North."

    def test_damaged_contents_take_nothing_from_a_book(self) -> None:
        item = '<item id="nav" href="nav.xhtml" properties="nav"/>'
        for members in ({}, {"OPS/nav.xhtml": "<html><nav"}):
            assert "North." in read(book(CHAPTERS, items=item, members=members), "a.epub").text

    def test_a_missing_chapter_is_told(self) -> None:
        data = book({**CHAPTERS, "gone.xhtml": ""}, spine=["b.xhtml", "gone.xhtml"])
        parsed = read(data, "a.epub")
        assert parsed.losses == ("chapter OPS/gone.xhtml cannot be read: empty file (0 bytes)",)

    def test_a_book_of_pictures_says_so(self) -> None:
        pages = {"a.xhtml": "<html><body><img src='a.jpg'/></body></html>"}
        with pytest.raises(ParseError, match="holds pictures or drawings, but no text"):
            parse(book(pages, members={"OPS/a.jpg": "x"}), "a.epub")
        with pytest.raises(ParseError, match=r"damaged: chapter OPS/b\.xhtml cannot be read"):
            parse(book({**pages, "b.xhtml": ""}, members={"OPS/a.jpg": "x"}), "a.epub")

    def test_encrypted_chapters_are_told_from_mangled_fonts(self) -> None:
        entry = (
            '<encryption xmlns:enc="http://www.w3.org/2001/04/xmlenc#"><enc:EncryptedData>'
            '<enc:EncryptionMethod Algorithm="{}"/>'
            '<enc:CipherData><enc:CipherReference URI="OPS/b.xhtml"/></enc:CipherData></enc:EncryptedData></encryption>'
        )
        aes = {"META-INF/encryption.xml": entry.format("http://www.w3.org/2001/04/xmlenc#aes128-cbc")}
        with pytest.raises(ParseError, match="protected by DRM"):
            parse(book(CHAPTERS, members=aes), "a.epub")
        fonts = {"META-INF/encryption.xml": entry.format("http://www.idpf.org/2008/embedding")}
        assert "North." in read(book(CHAPTERS, members=fonts), "a.epub").text

    def test_entities_that_multiply_are_refused(self) -> None:
        entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
        container = f'<!DOCTYPE a [<!ENTITY l0 "lol">{entities}]><a>&l9;</a>'
        with pytest.raises(ParseError, match=r"container.xml is no XML"):
            parse(book(CHAPTERS, members={"META-INF/container.xml": container}), "a.epub")


def message(text: str = "It sails at noon.", html: str | None = None, subject: str = "Fares for März") -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "Ann <ann@example.org>", "bob@example.org", subject
    mail["Date"] = "Wed, 31 Jan 2024 12:00:00 +0100"
    if text:
        mail.set_content(text)
    if html is not None and text:
        mail.add_alternative(html, subtype="html")
    elif html is not None:
        mail.set_content(html, subtype="html")
    return mail


def multipart(kind: str, *parts: tuple[str, str]) -> bytes:
    below = "".join(f"--b\nContent-Type: {part}\n\n{body}\n" for part, body in parts)
    return f"From: a@b\nSubject: s\nMIME-Version: 1.0\nContent-Type: multipart/{kind}; boundary=b\n\n{below}--b--\n".encode()


class TestMail:
    def test_the_head_and_the_body_are_read_once(self) -> None:
        parsed = read(message(html="<p>It sails at noon.</p>").as_bytes(), "a.eml")
        assert parsed.title == "Fares for März"
        assert parsed.text.count("It sails at noon.") == 1
        assert "From: Ann <ann@example.org>\nTo: bob@example.org\nDate: Wed, 31 Jan 2024 12:00:00 +0100" in parsed.text
        assert parsed.metadata["date"] == "2024-01-31T12:00:00+01:00"

    def test_html_is_read_where_there_is_no_plain_text(self) -> None:
        table = "<table><tr><th>Who<th>Price<tr><td>Adult<td>2</table>"
        assert "Who | Price\nAdult | 2" in read(message("", table).as_bytes(), "a.eml").text
        assert "Adult | 2" in read(message(" \n", table).as_bytes(), "a.eml").text

    def test_attachments_are_named_and_not_read(self) -> None:
        mail = message()
        mail.add_attachment(b"secret words", maintype="application", subtype="zip", filename="fares März.zip")
        parsed = read(mail.as_bytes(), "a.eml")
        assert parsed.metadata["attachments"] == ["fares März.zip"]
        assert "Attachment: fares März.zip" in parsed.text

    def test_a_forwarded_message_is_read(self) -> None:
        mail = message()
        mail.add_attachment(message("The inner words.", subject="Inner"))
        parsed = read(mail.as_bytes(), "a.eml")
        assert "## Inner" in parsed.text
        assert "The inner words." in parsed.text

    def test_wrong_charsets_and_soft_line_ends_do_not_hurt(self) -> None:
        kind = b"Content-Type: text/plain; charset=no-such-charset; format=flowed\n"
        head = b"From: a@b\nSubject: s\n" + kind + b"Content-Transfer-Encoding: 8bit\n\n"
        data = head + "Der Fährmann \nruft über \nden Fluss\n".encode("cp1252")
        assert "Der Fährmann ruft über den Fluss" in read(data, "a.eml").text

    def test_texts_around_a_picture_are_all_read_in_their_order(self) -> None:
        parts = [("text/plain", "First."), ("image/png", "zz"), ("text/html", "<p>Second.</p>"), ("text/plain", "Third.")]
        text = parse(multipart("mixed", *parts), "a.eml").text
        assert text.index("First.") < text.index("Second.") < text.index("Third.")
        assert "zz" not in text

    def test_what_a_mail_system_reports_is_read(self) -> None:
        status = "Reporting-MTA: dns; b\n\nFinal-Recipient: rfc822; nobody@example.org\nStatus: 5.1.1"
        parts = [("text/plain", "It was not delivered."), ("message/delivery-status", status)]
        assert "nobody@example.org" in parse(multipart("report", *parts), "a.eml").text

    def test_an_attachment_of_a_forwarded_message_is_named_once(self) -> None:
        inner = message("The inner words.", subject="Inner")
        inner.add_attachment(b"x", maintype="application", subtype="zip", filename="fares.zip")
        mail = message()
        mail.add_attachment(inner)
        parsed = read(mail.as_bytes(), "a.eml")
        assert parsed.metadata["attachments"] == ["fares.zip"]
        assert parsed.text.count("fares.zip") == 1

    @pytest.mark.parametrize(
        ("charset", "body", "text"),
        [
            ("iso-8859-1", "Der Fährmann".encode(), "Der Fährmann"),
            ("iso-8859-1", "“Fähre” – 5 €".encode("cp1252"), "“Fähre” – 5 €"),
            ("us-ascii", "Der Fährmann ruft".encode("cp1252"), "Der Fährmann ruft"),
            ("gb2312", "朱镕基在北京".encode("gbk"), "朱镕基在北京"),
        ],
    )
    def test_a_charset_that_is_nearly_right_does_not_hurt(self, charset: str, body: bytes, text: str) -> None:
        head = f"From: a@b\nSubject: s\nContent-Type: text/plain; charset={charset}\n\n".encode()
        assert text in parse(head + body, "a.eml").text

    def test_a_subject_in_bare_bytes_is_in_the_charset_of_the_body(self) -> None:
        text = "From: a@b\nSubject: Паром\nContent-Type: text/plain; charset=koi8-r\n\nв полдень"
        assert parse(text.encode("koi8-r"), "a.eml").title == "Паром"

    def test_text_in_base_64_that_was_cut_off_is_read_as_far_as_it_goes(self) -> None:
        head = "From: a@b\nSubject: s\nContent-Type: text/plain\nContent-Transfer-Encoding: base64\n\n"
        assert "It sails at noo" in parse((head + "SXQgc2FpbHMgYXQgbm9vb").encode(), "a.eml").text

    @pytest.mark.parametrize("body", ["It sails at noon", "noon\n", "SXQgc2FpbHM gYXQ"])
    def test_text_of_letters_only_that_came_in_base_64_is_not_unpacked_twice(self, body: str) -> None:
        head = "From: a@b\nSubject: s\nContent-Type: text/plain\nContent-Transfer-Encoding: base64\n\n"
        packed = base64.b64encode(body.encode()).decode()
        assert parse((head + packed).encode(), "a.eml").text.endswith(f"\n\n{body.strip()}")
        assert body.strip() in parse((head + packed.rstrip("=")).encode(), "a.eml").text

    def test_a_plain_text_that_only_sends_for_the_page_is_not_the_one_that_is_read(self) -> None:
        page = "<p>It sails at noon, and back at six.</p>" * 5
        stub = multipart("alternative", ("text/plain", "Read this mail in HTML."), ("text/html", page))
        assert "It sails at noon" in parse(stub, "a.eml").text
        both = multipart("alternative", ("text/plain", "It sails at noon, and back at six."), ("text/html", page[:41]))
        assert parse(both, "a.eml").text.count("It sails at noon") == 1

    def test_a_page_saved_with_its_pictures_is_read_as_mail(self) -> None:
        data = multipart("related", ("text/html", "<p>It sails at noon.</p>"), ("image/png", "zz"))
        assert "It sails at noon." in parse(data, "page.mht").text

    def test_an_encrypted_message_says_so(self) -> None:
        data = b"From: a@b\nSubject: s\nContent-Type: multipart/encrypted; boundary=b\n\n--b\n\nx\n--b--\n"
        with pytest.raises(ParseError, match="encrypted message"):
            parse(data, "a.eml")

    def test_a_mailbox_is_a_page_a_message(self) -> None:
        mails = [message("The first."), message("The second.\n\n>From here on.", subject="Ports")]
        data = b"".join(b"From ann Wed Jan 31 12:00:00 2024\n" + mail.as_bytes() + b"\n" for mail in mails)
        parsed = read(data, "a.mbox")
        assert [(section.page, section.heading_path) for section in parsed.sections] == [
            (1, ("Fares for März",)),
            (2, ("Ports",)),
        ]
        assert "\nFrom here on." in parsed.text


def notebook(*cells: dict[str, Any], **rest: Any) -> str:
    return json.dumps({"cells": list(cells), "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, **rest})


class TestNotebooks:
    def test_cells_become_text_and_fences_under_their_headings(self) -> None:
        output = {"output_type": "stream", "text": ["4\n", "\x1b[31mred\x1b[0m"]}
        picture = {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": "<Figure>"}}
        parsed = read(
            notebook(
                {"cell_type": "markdown", "source": ["# Fares\n", "\n", "How they are found."]},
                {"cell_type": "code", "source": "fare = 2 * 2\nprint(fare)", "outputs": [output, picture]},
            ),
            "a.ipynb",
        )
        assert parsed.text == (
            "# Fares\n\nHow they are found.\n\n```python\nfare = 2 * 2\nprint(fare)\n```\n\n```\n4\nred\n```\n\n"
            "```\n<Figure>\n```"
        )
        assert parsed.title == "Fares"
        assert [section.heading_path for section in parsed.sections] == [("Fares",)]

    def test_old_notebooks_are_read_too(self) -> None:
        cells = [{"cell_type": "heading", "level": 2, "source": "Fares"}, {"cell_type": "code", "input": "x = 1"}]
        parsed = read(json.dumps({"worksheets": [{"cells": cells}], "nbformat": 3}), "a.ipynb")
        assert parsed.text == "## Fares\n\n```python\nx = 1\n```"

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("[1]", "not a notebook"),
            ("{", "damaged notebook"),
            ("[" * 100_000, "nested too deeply"),
            (notebook(), "no text"),
        ],
    )
    def test_what_is_no_notebook_says_so(self, text: str, reason: str) -> None:
        with pytest.raises(ParseError, match=reason):
            parse(text.encode(), "a.ipynb")


class TestSourceCode:
    @pytest.mark.parametrize(
        ("path", "code", "names"),
        [
            (
                "a.py",
                "import x\n\n\n# Finds it.\n@cache\ndef fare(a):\n    def inner(): ...\n\nclass Boat:\n    x = 1\n",
                ["fare", "Boat"],
            ),
            ("a.go", "package a\n\n// Sails.\nfunc (b *Boat) Sail() {\n}\n\ntype T struct {}\n", ["a", "Sail"]),
            ("a.rs", "pub(crate) async fn sail() {}\n\nimpl<T> Boat<T> {}\n", ["sail", "Boat"]),
            ("a.ts", "export default class Boat {}\nexport function sail() {}\n", ["Boat", "sail"]),
            ("a.sql", "CREATE TABLE IF NOT EXISTS fares (x int);\n", ["fares"]),
        ],
    )
    def test_definitions_are_sections_with_what_stands_right_above_them(
        self, path: str, code: str, names: list[str]
    ) -> None:
        parsed = read(code, path)
        assert parsed.text == code
        assert [section.heading_path[0] for section in parsed.sections if section.heading_path] == names

    def test_comments_and_decorators_belong_to_what_follows(self) -> None:
        parsed = read("import x\n\n# Finds it.\n@cache\ndef fare(): ...\n", "a.py")
        assert [parsed.text[s.start : s.end] for s in parsed.sections] == [
            "import x\n\n",
            "# Finds it.\n@cache\ndef fare(): ...\n",
        ]
