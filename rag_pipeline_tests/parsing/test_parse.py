"""Which reader gets a file, and what is refused."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rag_pipeline.contracts import Section
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing import PARSER_VERSION, parse, parse_text
from rag_pipeline.parsing.parse import may_harm
from rag_pipeline_tests.parsing.documents import (
    Pdf,
    archive,
    book,
    cells,
    ole2,
    open_document,
    paragraph,
    shape,
    slides,
    word,
    workbook,
)

PAGE = b"<!DOCTYPE html><html><body><h1>Ferry</h1><p>It sails.</p></body></html>"


@pytest.mark.parametrize(
    ("path", "data", "media_type"),
    [
        ("a.txt", b"x", "text/plain"), ("a", b"x", "text/plain"), ("Makefile", b"x", "text/plain"),
        ("a.py", b"x", "text/x-python"), (".env", b"x", "text/plain"), ("a.csv", b"x", "text/csv"),
        ("a.tsv", b"x", "text/tab-separated-values"),
        ("a.json", b"{}", "application/json"), ("a.yml", b"x", "application/yaml"), ("A.MD", b"x", "text/markdown"),
        ("x.y/a.markdown", b"x", "text/markdown"), ("a.html", PAGE, "text/html"), ("a.HTM", PAGE, "text/html"),
        ("page", PAGE, "text/html"), ("a.txt", PAGE, "text/plain"),
        ("a.rst", b"x", "text/x-rst"),
    ],
)  # fmt: skip
def test_the_name_tells_the_format(path: str, data: bytes, media_type: str) -> None:
    assert parse(data, path).media_type == media_type


def test_a_text_is_kept_as_it_stands_in_one_section() -> None:
    parsed = parse(b"# no heading\r\n\r\n  indented\r\n<b>as it is</b> ", "notes.txt")
    assert parsed.text == "# no heading\n\n  indented\n<b>as it is</b> "
    assert parsed.sections == (Section(start=0, end=len(parsed.text)),)
    assert parsed.title is None
    assert parsed.metadata == {}


def test_the_text_of_a_row_becomes_a_document_in_the_same_way() -> None:
    parsed = parse_text("a\r\nb\x00", title="T", metadata={"year": 2020})
    assert (parsed.text, parsed.title, parsed.metadata) == ("a\nb", "T", {"year": 2020})
    assert parsed.sections == (Section(start=0, end=3),)
    with pytest.raises(ParseError):
        parse_text(" \n")


PDF = Pdf().lines("It sails at noon.").write()
WORD = word(paragraph("It sails at noon."))
SHEET = workbook({"Fares": cells([("Who", "Price"), ("Adult", 2)])})
SLIDES = slides(shape("Fares", kind="title"))
BOOK = book({"one.xhtml": "<html><body><p>It sails.</p></body></html>"})
RTF = b"{\\rtf1\\ansi It sails.}"
MAIL = b"From: a@example.org\nSubject: Fares\n\nIt sails.\n"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PDF, "PDF document"),
        (b"junk\n" + PDF, "PDF document"),
        (WORD, "Word document (.docx)"),
        (SHEET, "Excel workbook (.xlsx)"),
        (SLIDES, "PowerPoint presentation (.pptx)"),
        (BOOK, "EPUB book"),
        (open_document("<office:text/>"), "OpenDocument text (.odt)"),
        (archive({"a.txt": "x"}), "ZIP archive"),
        (archive({"word/document.xml": "x"}), "ZIP archive"),
        (WORD[:400], "damaged or truncated ZIP archive or Office document"),
        (ole2("EncryptedPackage"), "password-protected Office document"),
        (ole2("Workbook"), "Excel workbook (.xls)"),
        (ole2("__substg1.0_1"), "Outlook message (.msg)"),
        (ole2(), "Microsoft OLE2 file"),
        (RTF, "RTF document"),
        (b"\x89PNG\r\n\x1a\n\x00", "image"),
        (b"\xff\xd8\xff\xe0\x00", "image"),
        (b"GIF89a\x01\x00\x01\x00", "image"),
        (b"BM\x46\x00\x00\x00\x00\x00\x00\x00\x36", "image"),
        (b"\x1f\x8b\x08\x00", "gzip archive"),
        (b"\x7fELF\x02\x01\x01\x00", "program"),
        (b"SQLite format 3\x00", "SQLite database"),
        (b"PAR1\x15\x04\x15\x00", "Parquet file"),
        (b"x" * 257 + b"ustar\x00" + b"\x00" * 200, "tar archive"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
    ],
)
def test_a_document_under_a_name_that_promises_text_is_refused_as_misnamed(data: bytes, kind: str) -> None:
    with pytest.raises(ParseError) as error:
        parse(data, "notes.md")
    assert kind in str(error.value)
    assert "although the name ends in .md" in str(error.value)


@pytest.mark.parametrize(
    ("path", "data", "message"),
    [
        (
            "a.odt",
            b"no archive at all",
            "OpenDocument text (.odt) by its name (.odt), but the content does not look like one",
        ),
        ("a.png", b"just words", "image by its name (.png), but the content does not look like one"),
        ("a.pdf", PAGE, "but the content looks like an HTML page, such as a server's error"),
        ("a.csv", PAGE, "table by its name (.csv), but the content looks like an HTML page, such as a server's error"),
        ("a.eml", b"no head of a message", "e-mail message by its name (.eml), but the content does not look like one"),
        ("a.svg", b"<svg/>", "SVG image: files of this kind are not read"),
        ("a.pdf", b"", "empty file (0 bytes)"),
        ("a.docx", b"\x00" * 100, "holds nothing but NUL bytes"),
        ("a.docx", WORD[:400], "damaged or truncated Word document (.docx): its ZIP container cannot be opened"),
        ("a.docx", PDF, "PDF document, although the name ends in .docx"),
        ("a.pdf", WORD, "Word document (.docx), although the name ends in .pdf"),
        ("a.docx", ole2("EncryptedPackage"), "password-protected Office document"),
        ("a.doc", ole2("WordDocument"), "Word document (.doc): files of this kind are not read; save it as .docx"),
        ("a.zip", archive({"a.txt": "x"}), "ZIP archive: files of this kind are not read; unpack it"),
        ("a.pdf", b"%PDF-1.7\nendobj", "damaged or truncated PDF"),
        ("a.ipynb", b"{", "damaged notebook"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_own_reason(path: str, data: bytes, message: str) -> None:
    with pytest.raises(ParseError) as error:
        parse(data, path)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("path", "data", "words"),
    [
        ("a", WORD, "It sails at noon."), ("a.bin", PDF, "It sails at noon."), ("a.doc", WORD, "It sails at noon."),
        ("a.doc", RTF, "It sails."), ("a.xls", SHEET, "Adult | 2"), ("a.xls", b"<table><tr><td>a<td>b</table>", "a | b"),
        ("a.doc", PAGE, "It sails."), ("a.xls", b"Who\tPrice\nAdult\t2\n", "Adult | 2"), ("a", MAIL, "It sails."),
        ("a.docx", SHEET, "Adult | 2"),
    ],
)  # fmt: skip
def test_the_content_tells_the_kind_where_the_name_does_not_or_is_that_of_a_sibling(
    path: str, data: bytes, words: str
) -> None:
    assert words in parse(data, path).text


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("a.pdf", b"x"),
        ("a", PDF),
        ("a.txt", WORD),
        ("a.html", b"x"),
        ("a", PAGE),
        ("a.rst", b"x"),
        ("a", MAIL),
        ("a.x", RTF),
    ],
)
def test_what_complex_readers_read_belongs_in_a_worker(path: str, data: bytes) -> None:
    assert may_harm(data, path)


@pytest.mark.parametrize("path", ["a.md", "a.txt", "a", "a.csv", "a.py", "a.json", "a.ipynb", "a.xyz"])
def test_text_is_read_without_one(path: str) -> None:
    assert not may_harm(b"It sails at noon.", path)


@pytest.mark.parametrize(
    "data",
    [
        b"A PDF begins with `%PDF-1.7`.", b"BMW and others", b"MZ is a district", b"PARIS", b"GIF89a is a format",
        b"BZh\n",
        b"PKZIP was a program", b"ID3 tags", b"SQLite format 3 is a file format", b"OTTO", b"RIFF    WAVE",
    ],
)  # fmt: skip
def test_a_text_about_a_format_is_a_text(data: bytes) -> None:
    assert parse(data, "notes.md").text == data.decode()


def test_there_is_a_version_that_changes_with_the_output() -> None:
    assert PARSER_VERSION


def test_importing_the_room_loads_no_parser_library() -> None:
    code = (
        "import sys, rag_pipeline.parsing\n"
        "heavy = {'docutils', 'selectolax', 'chardet', 'yaml', 'pypdfium2', 'pypdf', 'office_oxide', 'python_calamine'}\n"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.eml", f"Subject: {'x' * 100_000}\n\ntext\n"),
        ("a.py", "def " + "f" * 100_000 + "(): pass\n"),
        ("a.md", "# " + "word " * 20_000 + "\n\n## Below\n\ntext\n"),
        ("a.html", f"<html><title>{'x' * 100_000}</title><h1>{'y' * 100_000}</h1><p>text</p></html>"),
    ],
)
def test_a_heading_without_end_is_not_repeated_in_every_chunk(path: str, text: str) -> None:
    parsed = parse(text.encode(), path)
    headings = [heading for section in parsed.sections for heading in section.heading_path]
    assert max(map(len, [*headings, parsed.title or ""])) == 500
    assert len(parsed.text) > 90_000
