"""HTML: the readable text of the content, found by rules that rather keep too much than too little."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import MissingExtraError, ParseError
from rag_pipeline.parsing.builder import TextBuilder
from rag_pipeline.parsing.html_content import everything, find_content
from rag_pipeline.parsing.html_limits import limit_markup
from rag_pipeline.parsing.html_render import page_title, render, says_title
from rag_pipeline.parsing.html_tree import HtmlTree
from rag_pipeline.parsing.no_text import ONLY_MARKUP

MEDIA_TYPE = "text/html"

_XHTML = re.compile(
    r"""(?isx)
    \s*<\?xml\b
    | [^>]*? (?: <!--(?:(?!-->).)*--> | <!doctype[^>\[]*(?:\[[^\]]*\]\s*)?> | \s )* <html\b[^>]*\sxmlns\s*=
    """
)
# XHTML may write empty elements in short, which HTML takes for the start of one.
_SHORT_ELEMENT = re.compile(
    r"<(title|script|style|a|p|div|span|i|b|em|strong|td|th|li|iframe|textarea)\b([^<>]*)/>", re.IGNORECASE
)
_INTERNAL_SUBSET = re.compile(r"(<!doctype\s[^>\[]*)\[[^\]]*\]\s*>", re.IGNORECASE)
"""Declarations within the document type, of which HTML knows nothing: all behind the first ``>`` would be text."""
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_HEAD = 4096
_FRAMES = re.compile(r"</?(?:frameset|noframes|frame)\b[^>]*>", re.IGNORECASE)


def parse_html(html: str) -> Parsed:
    """Parse a decoded HTML page.

    Headings, lists, code and tables become lines of readable text. The title is the page's ``<title>``, otherwise its
    first ``<h1>``. Unless an ``<h1>`` of the content says it, it stands above all headings. Metadata are ``lang`` and
    ``description`` where the page has them.

    Raises:
        ParseError: the page shows no text.
    """
    if _XHTML.match(html[:_HEAD]):
        html = as_html(html)
    if "<frameset" in html.lower():
        html = _FRAMES.sub("", html)  # what browsers without frames show is all that there is
    parser = _parser(html)
    if parser.root is None:
        raise ParseError(ONLY_MARKUP)
    title = page_title(parser)
    tree = HtmlTree(parser.root)
    for content in (find_content(tree), everything(tree)):
        builder = TextBuilder()
        if title and not says_title(tree, content, title):
            builder.heading(0, title)
        blocks = builder.blocks
        render(tree, content, builder)
        if builder.blocks > blocks:
            return builder.build(MEDIA_TYPE, title or builder.top_heading, _metadata(parser))
    raise ParseError(ONLY_MARKUP)


def as_html(xhtml: str) -> str:
    """A page of XHTML so that a reader of HTML reads it in the same way."""
    page = _CDATA.sub(lambda found: escape(found[1], quote=False), xhtml)
    return _SHORT_ELEMENT.sub(r"<\1\2></\1>", page)


def write_html(html: str, builder: TextBuilder) -> None:
    """Write all that a piece of HTML shows: a chapter of a book, or the body of a message."""
    parser = _parser(html)
    if parser.root is not None:
        tree = HtmlTree(parser.root)
        render(tree, everything(tree), builder)


def _parser(html: str) -> Any:
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError:
        raise MissingExtraError("selectolax", "pipeline", "Reading HTML") from None
    return LexborHTMLParser(limit_markup(_INTERNAL_SUBSET.sub(r"\1>", html, count=1)))


def _metadata(parser: Any) -> dict[str, str]:
    metadata: dict[str, str] = {}
    language = (parser.root.attributes.get("lang") or "").strip()
    if language:
        metadata["lang"] = language
    for node in parser.css("meta[content]"):
        if (node.attributes.get("name") or "").lower() == "description":
            description = " ".join((node.attributes.get("content") or "").split())
            if description:
                metadata["description"] = description
            break
    return metadata
