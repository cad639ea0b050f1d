"""Bytes -> a parsed document: judge what the bytes are, decode them, hand them to the reader of their format."""

from __future__ import annotations

import re

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing import sniffing
from rag_pipeline.parsing.delimited import MEDIA_TYPES as DELIMITED
from rag_pipeline.parsing.delimited import parse_delimited
from rag_pipeline.parsing.encoding import decode
from rag_pipeline.parsing.hooks import Hooks
from rag_pipeline.parsing.html import parse_html
from rag_pipeline.parsing.mail import parse_mail, parse_mailbox
from rag_pipeline.parsing.markdown import parse_markdown
from rag_pipeline.parsing.notebook import parse_notebook
from rag_pipeline.parsing.rst import parse_rst
from rag_pipeline.parsing.source_code import code_media_type, parse_code
from rag_pipeline.parsing.text import parse_text, text_media_type

PARSER_VERSION = "5"
"""Raised whenever the same bytes give another text, structure or metadata: documents are then parsed anew."""

_LONGEST_HEADING = 500
_MOST_LEVELS = 16
"""Every chunk holds its headings: a mail of 1 MB with a subject of the same length became chunks of 2 GB."""

_MARKDOWN = frozenset({".md", ".markdown", ".mdown", ".mkd", ".mdx", ".qmd", ".rmd"})
_HTML = frozenset({".html", ".htm", ".xhtml", ".xht"})
_RST = frozenset({".rst", ".rest"})
_SAVED_BY_OFFICE = frozenset({".doc", ".xls", ".ppt"})
"""Programs save HTML under these names, and .xls with values between tabs or commas, too."""
_HTML_START = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--(?:(?!-->).)*-->\s*)*<(?:!doctype\s+html|html[\s>])", re.IGNORECASE | re.DOTALL
)
_HTML_HEAD_BYTES = 4096
_LIKE_A_PAGE = "looks like an HTML page, such as a server's error"
_TABLE_START = re.compile(r"\s*<(?:table|style|meta|head|body)\b", re.IGNORECASE)


def parse(data: bytes, path: str, hooks: Hooks | None = None) -> Parsed:
    """Parse one file, in this process.

    The kind is told by the content where the content can tell it. A name may promise less (no suffix, or one that is not
    known), or another kind of Office document; what contradicts its name otherwise is refused. Text is Markdown, HTML and
    so on by its name.

    Args:
        data: the whole file.
        path: its name; only the suffix counts, and hooks are told all of it.

    Raises:
        ParseError: the file is empty, damaged, protected, no text, or something else than its name says; the message is
            the reason.
    """
    return _with_short_headings(_parse(data, path, hooks))


def _with_short_headings(parsed: Parsed) -> Parsed:
    """The document with headings as long as people read them; its text stays whole."""
    changed: dict[str, object] = {}
    if parsed.title is not None and len(parsed.title) > _LONGEST_HEADING:
        changed["title"] = _short(parsed.title)
    if any(
        len(s.heading_path) > _MOST_LEVELS or any(len(h) > _LONGEST_HEADING for h in s.heading_path) for s in parsed.sections
    ):
        changed["sections"] = tuple(
            section.model_copy(update={"heading_path": tuple(map(_short, section.heading_path[:_MOST_LEVELS]))})
            for section in parsed.sections
        )
    return parsed.model_copy(update=changed) if changed else parsed


def _short(heading: str) -> str:
    return heading if len(heading) <= _LONGEST_HEADING else f"{heading[: _LONGEST_HEADING - 1].rstrip()}…"


def _parse(data: bytes, path: str, hooks: Hooks | None) -> Parsed:
    suffix = suffix_of(path)
    kind = sniffing.kind_of(data)
    promised = sniffing.NAMED_KINDS.get(suffix)
    if kind is not None:
        _refuse_contradiction(kind, promised, suffix)
        return _parse_kind(kind, data, path, hooks or Hooks())
    if promised is not None and data.strip(b"\x00 \t\r\n\v\f"):
        return _parse_promised(promised, data, suffix)
    text = decode(data, html=suffix in _HTML or not suffix)
    if suffix in _MARKDOWN:
        return parse_markdown(text)
    if suffix in _HTML or (not suffix and _HTML_START.match(text)):
        return parse_html(text)
    if suffix in _RST:
        return parse_rst(text)
    if suffix in DELIMITED:
        if _HTML_START.match(text):
            raise ParseError(f"table by its name ({suffix}), but the content {_LIKE_A_PAGE}")
        return parse_delimited(text, suffix)
    if not suffix and sniffing.is_mail(data):
        return _parse_promised(sniffing.MAIL, data, suffix)
    code = code_media_type(suffix)
    return parse_text(text, text_media_type(suffix)) if code is None else parse_code(text, code)


def may_harm(data: bytes, path: str) -> bool:
    """Whether the reader of a file may crash, hang or eat memory, so that it belongs in a process of its own.

    Text, Markdown, tables in text, source code and notebooks are read by code whose time and memory grow with the file.
    """
    suffix = suffix_of(path)
    if suffix in _HTML or suffix in _RST or sniffing.NAMED_KINDS.get(suffix) not in (None, sniffing.NOTEBOOK):
        return True
    if sniffing.is_container(data):
        return True
    return not suffix and (b"<" in data[:_HTML_HEAD_BYTES] or sniffing.is_mail(data))


def suffix_of(path: str) -> str:
    """The suffix of a path's last part, in lower case; a name that only begins with a dot has none."""
    name = path.rpartition("/")[2].lstrip(".")
    stem, dot, ending = name.rpartition(".")
    return f".{ending.lower()}" if dot and stem else ""


def _refuse_contradiction(kind: str, promised: str | None, suffix: str) -> None:
    """
    Raises:
        ParseError: the name promises text, or another family of documents.
    """
    if promised is None and not _promises_text(suffix):
        return
    if promised == kind or (promised in sniffing.OFFICE_KINDS and kind in sniffing.OFFICE_KINDS):
        return
    if kind == sniffing.DAMAGED_ZIP and promised is not None:
        raise ParseError(f"damaged or truncated {promised}: its ZIP container cannot be opened")
    if kind == sniffing.OLE2 and promised in (
        sniffing.OLD_WORD,
        sniffing.OLD_EXCEL,
        sniffing.OLD_POWERPOINT,
        sniffing.OUTLOOK,
    ):
        raise ParseError(f"damaged or truncated {promised}: its directory of streams is missing")
    if promised in (sniffing.OPEN_TEXT, sniffing.OPEN_SHEET, sniffing.OPEN_SLIDES) and kind == sniffing.OPEN_DOCUMENT:
        return
    raise ParseError(f"{kind}, although the name ends in {suffix}; rename it if it is to be read")


def _promises_text(suffix: str) -> bool:
    return (
        suffix in _MARKDOWN | _HTML | _RST | DELIMITED.keys() | {".txt", ".text", ".log"}
        or text_media_type(suffix) != "text/plain"
        or code_media_type(suffix) is not None
    )


def _parse_kind(kind: str, data: bytes, path: str, hooks: Hooks) -> Parsed:
    match kind:
        case sniffing.PDF:
            from rag_pipeline.parsing.pdf import parse_pdf

            return parse_pdf(data, path, hooks)
        case sniffing.WORD | sniffing.POWERPOINT:
            from rag_pipeline.parsing.office import parse_slides, parse_word

            return parse_word(data) if kind == sniffing.WORD else parse_slides(data)
        case sniffing.EXCEL | sniffing.OLD_EXCEL | sniffing.OPEN_SHEET:
            from rag_pipeline.parsing.spreadsheets import MEDIA_TYPES, parse_spreadsheet

            return parse_spreadsheet(data, MEDIA_TYPES[kind])
        case sniffing.OPEN_TEXT | sniffing.OPEN_SLIDES:
            from rag_pipeline.parsing.open_document import MEDIA_TYPES as OPEN_TYPES
            from rag_pipeline.parsing.open_document import parse_open_document

            return parse_open_document(data, OPEN_TYPES[kind])
        case sniffing.EPUB:
            from rag_pipeline.parsing.epub import parse_epub

            return parse_epub(data)
        case sniffing.OUTLOOK:
            from rag_pipeline.parsing.outlook import parse_outlook

            return parse_outlook(data)
        case sniffing.RTF:
            from rag_pipeline.parsing.rtf import parse_rtf

            return parse_rtf(data)
        case sniffing.ENCRYPTED:
            from rag_pipeline.parsing.encrypted import decrypted

            opened = decrypted(data, path, hooks)
            return _parse_kind(sniffing.kind_of(opened) or kind, opened, path, Hooks(hooks.ocr))
    raise ParseError(f"{kind}: files of this kind are not read{_REMEDIES.get(kind, '')}")


_REMEDIES = {
    sniffing.OLD_WORD: "; save it as .docx",
    sniffing.OLD_POWERPOINT: "; save it as .pptx",
    sniffing.ZIP: "; unpack it",
}


def _parse_promised(promised: str, data: bytes, suffix: str) -> Parsed:
    """A text whose name promises a kind of document that can be text."""
    match promised:
        case sniffing.MAIL | sniffing.MAILBOX if sniffing.is_mail(data):
            mailbox = data.lstrip(b"\r\n").startswith(b"From ")
            return parse_mailbox(data) if mailbox else parse_mail(data)
        case sniffing.NOTEBOOK:
            return parse_notebook(decode(data))
        case sniffing.FLAT_OPEN_DOCUMENT if b"office:document" in data[:_HTML_HEAD_BYTES]:
            from rag_pipeline.parsing.open_document import parse_flat_document

            return parse_flat_document(data)
        case sniffing.VECTOR_IMAGE:
            raise ParseError(f"{promised}: files of this kind are not read")
    try:
        text = decode(data, html=True)
    except ParseError:  # it is not text either
        text = ""
    is_html = _HTML_START.match(text) is not None
    if suffix in _SAVED_BY_OFFICE and (is_html or _TABLE_START.match(text)):
        return parse_html(text)
    if promised == sniffing.OLD_EXCEL and any(mark in text.partition("\n")[0] for mark in "\t,;"):
        return parse_delimited(text, suffix)
    what = _LIKE_A_PAGE if is_html else "does not look like one"
    raise ParseError(f"{promised} by its name ({suffix}), but the content {what}")
