"""OpenDocument texts and presentations (.odt, .odp), walked by hand: no reader of them is kept up."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing.archives import Archive
from rag_pipeline.parsing.builder import TextBuilder
from rag_pipeline.parsing.reasons import PASSWORD_OFFICE, TOO_DEEP
from rag_pipeline.parsing.sniffing import OPEN_SLIDES, OPEN_TEXT
from rag_pipeline.parsing.tables import Cell, rows_in_line

MEDIA_TYPES = {
    OPEN_TEXT: "application/vnd.oasis.opendocument.text",
    OPEN_SLIDES: "application/vnd.oasis.opendocument.presentation",
}

_SKIPPED = frozenset(
    {
        "tracked-changes",
        "forms",
        "sequence-decls",
        "variable-decls",
        "user-field-decls",
        "annotation-end",
        "event-listeners",
        "ruby-text",
        "binary-data",
    }
)
_GROUPS_OF_ROWS = frozenset({"table-header-rows", "table-rows", "table-row-group"})
_REPEATED_PARTS = (("header", "header-first", "header-left"), ("footer", "footer-first", "footer-left"))
_SHAPES = frozenset({"custom-shape", "rect", "ellipse", "circle", "polygon", "path", "caption"})
_FRAMES = frozenset({"text-box", "table", "note", "annotation"}) | _SHAPES
_LENGTH = re.compile(r"(-?[\d.]+)(cm|mm|in|pt)")
_CENTIMETRES = {"cm": 1.0, "mm": 0.1, "in": 2.54, "pt": 2.54 / 72}
_ROW = 1.0
"""Centimetres; frames that begin within so many at the same height are read from left to right."""
_MOST_REPEATS = 100
_DEEPEST_INDENT = 8


def parse_open_document(data: bytes, media_type: str) -> Parsed:
    """Parse a text, or a presentation whose slides are pages.

    Raises:
        ParseError: it wants a password, is damaged, or holds no text.
    """
    archive = Archive(data)
    if "META-INF/manifest.xml" in archive and b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise ParseError(PASSWORD_OFFICE)
    content = archive.xml("content.xml")
    styles = (
        archive.xml("styles.xml") if "styles.xml" in archive and media_type == MEDIA_TYPES[OPEN_TEXT] else Element("none")
    )
    meta = archive.xml("meta.xml") if "meta.xml" in archive else Element("none")
    return _parsed(content, styles, meta, media_type)


def parse_flat_document(data: bytes) -> Parsed:
    """Parse a text or a presentation that is one file of XML (.fodt, .fodp).

    Raises:
        ParseError: it is no XML, a spreadsheet, or holds no text.
    """
    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise ParseError(f"damaged: it is no XML ({error})") from error
    kind = _attribute(root, "mimetype")
    if kind not in MEDIA_TYPES.values():
        raise ParseError(
            f"flat OpenDocument file of the type {kind or 'none'}: only texts and presentations are read; save it as .ods"
        )
    return _parsed(root, root, root, kind)


def _parsed(content: Element, styles: Element, meta: Element, media_type: str) -> Parsed:
    builder = TextBuilder()
    writer = _Writer(builder, content)
    headers, footers = _REPEATED_PARTS
    try:
        writer.repeated(styles, headers)
        writer.blocks(next((part for part in content.iter() if _name(part) == "body"), content))
        writer.repeated(styles, footers)
    except RecursionError:
        raise ParseError(TOO_DEEP) from None
    said = {_name(element): " ".join((element.text or "").split()) for element in meta.iter()}
    metadata = {"author": said.get("initial-creator") or said.get("creator"), "created": said.get("creation-date")}
    known = {name: value for name, value in metadata.items() if value}
    return builder.build(media_type, said.get("title") or builder.top_heading, known)


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _attribute(element: Element, name: str) -> str:
    return next((value for key, value in element.items() if key.rpartition("}")[2] == name), "")


def _number(element: Element, name: str, default: int) -> int:
    value = _attribute(element, name)
    return int(value) if value.isdecimal() else default


def _place(frame: Element) -> tuple[int, float]:
    """Where a frame is read: from top to bottom, and from left to right in one row; notes come last."""
    if _name(frame) == "notes":
        return sys.maxsize, 0
    top, left = (_LENGTH.fullmatch(_attribute(frame, name)) for name in ("y", "x"))
    if top is None or left is None:
        return 0, 0
    return round(float(top[1]) * _CENTIMETRES[top[2]] / _ROW), float(left[1]) * _CENTIMETRES[left[2]]


def _hidden_styles(content: Element) -> frozenset[str]:
    """Styles of characters that are not shown."""
    return frozenset(
        _attribute(style, "name")
        for style in content.iter()
        if _name(style) == "style" and any(_attribute(part, "display") == "none" for part in style)
    )


class _Writer:
    def __init__(self, builder: TextBuilder, content: Element) -> None:
        self._builder = builder
        self._slides = 0
        self._hidden = _hidden_styles(content)

    def repeated(self, styles: Element, names: Collection[str]) -> None:
        """Headers or footers of the pages, what several kinds of page share only once."""
        seen: set[str] = set()
        for part in styles.iter():
            if _name(part) in names and (text := self._all_text(part).strip()) and text not in seen:
                seen.add(text)
                self._builder.block(text)

    def blocks(self, parent: Element, depth: int = 0) -> None:
        for element in parent:
            self._block(element, depth)

    def _block(self, element: Element, depth: int) -> None:
        match _name(element):
            case name if name in _SKIPPED:
                return
            case "h":
                self._builder.heading(_number(element, "outline-level", 1), self._inline(element))
                self._framed(element, depth)
            case "p":
                self._builder.block(self._inline(element).strip())
                self._framed(element, depth)
            case "list":
                self._list(element, depth)
            case "table":
                self._builder.rows(list(rows_in_line(self._rows(element))))
            case "page":
                self._slide(element)
            case "note" | "annotation":
                self._builder.block(" ".join(self._all_text(element).split()))
            case _:
                self.blocks(element, depth)

    def _slide(self, page: Element) -> None:
        self._slides += 1
        self._builder.page(self._slides)
        if not any(text.strip() for text in page.itertext()):
            return
        frames = list(page)
        titles = [frame for frame in frames if _attribute(frame, "class") == "title"]
        title = " ".join(" ".join(self._all_text(frame).split()) for frame in titles)
        self._builder.heading(1, title or f"Slide {self._slides}")
        for frame in sorted(frames, key=_place):
            if frame not in titles:
                self._block(frame, 0)

    def _list(self, element: Element, depth: int) -> None:
        indent = "  " * min(depth, _DEEPEST_INDENT)
        for item in element:
            sign = "-"
            for child in item:
                if _name(child) in ("p", "h"):
                    self._builder.block(f"{indent}{sign} {self._inline(child).strip()}", tight=True)
                    sign = " "
                    self._framed(child, depth)
                else:
                    self._block(child, depth + 1)

    def _framed(self, paragraph: Element, depth: int) -> None:
        """What is anchored in a paragraph and stands apart from its text: text boxes, notes, comments."""
        pending = list(paragraph)[::-1]
        while pending:
            element = pending.pop()
            if _name(element) in _FRAMES:
                self._block(element, depth)
            elif _name(element) not in _SKIPPED:
                pending.extend(list(element)[::-1])

    def _inline(self, element: Element) -> str:
        parts = [element.text or ""]
        for child in element:
            match _name(child):
                case "s":
                    parts.append(" " * min(_number(child, "c", 1), _MOST_REPEATS))
                case "tab":
                    parts.append("\t")
                case "line-break":
                    parts.append("\n")
                case "span" if _attribute(child, "style-name") in self._hidden:
                    pass
                case name if name not in _FRAMES and name not in _SKIPPED:
                    parts.append(self._inline(child))
            parts.append(child.tail or "")
        return "".join(parts)

    def _all_text(self, element: Element) -> str:
        """The text of all paragraphs within an element, those in frames as well."""
        return "\n".join(self._inline(child) for child in element.iter() if _name(child) in ("p", "h"))

    def _rows(self, table: Element) -> Iterator[list[Cell]]:
        """The rows of a table; those of a table within a cell are text of the cell."""
        for child in table:
            if _name(child) == "table-row":
                yield list(self._cells(child))
            elif _name(child) in _GROUPS_OF_ROWS:
                yield from self._rows(child)

    def _cells(self, row: Element) -> Iterator[Cell]:
        for cell in row:
            if _name(cell) == "table-cell":  # what it covers follows as cells of their own, without text
                text = " ".join(self._all_text(cell).split())
                shown = Cell(text, _number(cell, "number-columns-spanned", 1), _number(cell, "number-rows-spanned", 1))
                yield from [shown] * (min(_number(cell, "number-columns-repeated", 1), _MOST_REPEATS) if text else 1)
