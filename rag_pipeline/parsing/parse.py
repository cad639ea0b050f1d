"""Bytes -> a parsed document: judge what the bytes are, decode them, hand them to the reader of their format."""

from __future__ import annotations

import re

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing.encoding import decode
from rag_pipeline.parsing.html import parse_html
from rag_pipeline.parsing.markdown import parse_markdown
from rag_pipeline.parsing.rst import parse_rst
from rag_pipeline.parsing.sniffing import NAMED_KINDS, WRITTEN_KINDS, kind_of
from rag_pipeline.parsing.text import parse_text, text_media_type

PARSER_VERSION = "1"
"""Raised whenever the same bytes give another text, structure or metadata: documents are then parsed anew."""

_MARKDOWN = frozenset({".md", ".markdown", ".mdown", ".mkd", ".mdx", ".qmd", ".rmd"})
_HTML = frozenset({".html", ".htm", ".xhtml", ".xht"})
_RST = frozenset({".rst", ".rest"})
_HTML_START = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html[\s>])", re.IGNORECASE | re.DOTALL
)


def parse(data: bytes, path: str) -> Parsed:
    """Parse one file.

    The format is told by the name where the content does not speak against it: Markdown, HTML, reStructuredText, and
    plain text for whatever else can be decoded. A page without a suffix is known by its first tag.

    Args:
        data: the whole file.
        path: its name; only the suffix counts.

    Raises:
        ParseError: the file is empty, no text, or something else than its name says; the message is the reason.
    """
    suffix = _suffix(path)
    _refuse_other_kinds(data, suffix)
    text = decode(data, html=suffix in _HTML or not suffix)
    if suffix in _MARKDOWN:
        return parse_markdown(text)
    if suffix in _HTML or (not suffix and _HTML_START.match(text)):
        return parse_html(text)
    if suffix in _RST:
        return parse_rst(text)
    return parse_text(text, text_media_type(suffix))


def _suffix(path: str) -> str:
    """The suffix of a path's last part, in lower case; a name that only begins with a dot has none."""
    name = path.rpartition("/")[2].lstrip(".")
    stem, dot, ending = name.rpartition(".")
    return f".{ending.lower()}" if dot and stem else ""


def _refuse_other_kinds(data: bytes, suffix: str) -> None:
    promised = NAMED_KINDS.get(suffix)
    found = kind_of(data)
    if found is not None:
        although = f", although the name ends in {suffix}" if suffix and promised is None else ""
        raise ParseError(f"{found}{although}; not supported yet")
    if promised is not None and data:
        but = "" if promised in WRITTEN_KINDS else ", but the content does not look like one"
        raise ParseError(f"{promised} by its name ({suffix}){but}; not supported yet")
