"""Which reader gets a file, and what is refused."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile

import pytest

from rag_pipeline.contracts import Section
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing import PARSER_VERSION, parse, parse_text

PAGE = b"<!DOCTYPE html><html><body><h1>Ferry</h1><p>It sails.</p></body></html>"


def archive(*names: str, mimetype: str = "") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        if mimetype:
            file.writestr("mimetype", mimetype)
        for name in names:
            file.writestr(name, "x")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("path", "data", "media_type"),
    [
        ("a.txt", b"x", "text/plain"), ("a", b"x", "text/plain"), ("Makefile", b"x", "text/plain"),
        ("a.py", b"x", "text/plain"), (".env", b"x", "text/plain"), ("a.csv", b"x", "text/csv"),
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


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"%PDF-1.7\n1 0 obj\nendobj\n", "PDF document"),
        (b"junk\n%PDF-1.4\n1 0 obj\nendobj\n", "PDF document"),
        (archive("word/document.xml"), "Word document (.docx)"),
        (archive("xl/workbook.xml"), "Excel workbook (.xlsx)"),
        (archive("ppt/presentation.xml"), "PowerPoint presentation (.pptx)"),
        (archive("content.opf", mimetype="application/epub+zip"), "EPUB book"),
        (archive("content.xml", mimetype="application/vnd.oasis.opendocument.text"), "OpenDocument file"),
        (archive("a.txt"), "ZIP archive"),
        (archive("word/document.xml")[:40], "damaged or truncated ZIP archive or Office document"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "password-protected Office document"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "Workbook".encode("utf-16-le"), "Excel workbook (.xls)"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "__substg1.0_1".encode("utf-16-le"), "Outlook message (.msg)"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x00" * 99, "Microsoft OLE2 file"),
        (b"{\\rtf1\\ansi text}", "RTF document"),
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
def test_a_file_of_another_kind_than_its_name_is_refused_by_its_kind(data: bytes, kind: str) -> None:
    with pytest.raises(ParseError) as error:
        parse(data, "notes.md")
    assert kind in str(error.value)
    assert "although the name ends in .md; not supported yet" in str(error.value)


@pytest.mark.parametrize(
    ("path", "data", "message"),
    [
        ("a.pdf", b"%PDF-1.7\nendobj", "PDF document; not supported yet"),
        ("a.docx", archive("word/document.xml"), "Word document (.docx); not supported yet"),
        ("a", archive("word/document.xml"), "Word document (.docx); not supported yet"),
        ("a.odt", b"no archive at all", "OpenDocument file by its name (.odt), but the content does not look like one"),
        ("a.png", b"just words", "image by its name (.png), but the content does not look like one"),
        ("a.eml", b"From: a\n\nHello", "e-mail message by its name (.eml); not supported yet"),
        ("a.svg", b"<svg/>", "SVG image by its name (.svg); not supported yet"),
        ("a.pdf", b"", "empty file (0 bytes)"),
    ],
)
def test_kinds_that_are_not_read_are_named(path: str, data: bytes, message: str) -> None:
    with pytest.raises(ParseError) as error:
        parse(data, path)
    assert message in str(error.value)


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
        "print(sorted({'docutils', 'selectolax', 'chardet', 'yaml'} & {name.partition('.')[0] for name in sys.modules}))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
