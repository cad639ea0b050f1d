"""OpenDocument texts and presentations (.odt, .odp), walked by hand: no reader of them is kept up."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing.archives import Archive
from rag_pipeline.parsing.builder import TextBuilder
from rag_pipeline.parsing.reasons import PASSWORD_OFFICE, TOO_DEEP
from rag_pipeline.parsing.sniffing import OPEN_SLIDES, OPEN_TEXT

MEDIA_TYPES = {
    OPEN_TEXT: "application/vnd.oasis.opendocument.text",
    OPEN_SLIDES: "application/vnd.oasis.opendocument.presentation",
}

_SKIPPED = frozenset(
    {"tracked-changes", "forms", "sequence-decls", "variable-decls", "user-field-decls", "annotation-end", "event-listeners"}
)
_FRAMES = frozenset({"text-box", "table", "note", "annotation"})
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
    builder = TextBuilder()
    try:
        _Writer(builder).blocks(archive.xml("content.xml"))
    except RecursionError:
        raise ParseError(TOO_DEEP) from None
    meta = _meta(archive)
    metadata = {"author": meta.get("creator"), "created": meta.get("creation-date")}
    known = {name: value for name, value in metadata.items() if value}
    return builder.build(media_type, meta.get("title") or builder.top_heading, known)


def _meta(archive: Archive) -> dict[str, str]:
    if "meta.xml" not in archive:
        return {}
    return {_name(element): " ".join((element.text or "").split()) for element in archive.xml("meta.xml").iter()}


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _attribute(element: Element, name: str) -> str:
    return next((value for key, value in element.items() if key.rpartition("}")[2] == name), "")


def _number(element: Element, name: str, default: int) -> int:
    value = _attribute(element, name)
    return int(value) if value.isdecimal() else default


class _Writer:
    def __init__(self, builder: TextBuilder) -> None:
        self._builder = builder
        self._slides = 0

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
                self._builder.rows([list(row) for row in self._rows(element)])
            case "page":
                self._slide(element)
            case "note" | "annotation":
                self._builder.block(" ".join(self._all_text(element).split()))
            case _:
                self.blocks(element, depth)

    def _slide(self, page: Element) -> None:
        self._slides += 1
        self._builder.page(self._slides)
        frames = list(page)
        titles = [frame for frame in frames if _attribute(frame, "class") == "title"]
        title = " ".join(" ".join(self._all_text(frame).split()) for frame in titles)
        self._builder.heading(1, title or f"Slide {self._slides}")
        for frame in frames:
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
                case name if name not in _FRAMES and name not in _SKIPPED:
                    parts.append(self._inline(child))
            parts.append(child.tail or "")
        return "".join(parts)

    def _all_text(self, element: Element) -> str:
        """The text of all paragraphs within an element, those in frames as well."""
        return "\n".join(self._inline(child) for child in element.iter() if _name(child) in ("p", "h"))

    def _rows(self, table: Element) -> Iterator[Iterator[str]]:
        for row in table.iter():
            if _name(row) == "table-row":
                yield self._cells(row)

    def _cells(self, row: Element) -> Iterator[str]:
        for cell in row:
            if _name(cell) in ("table-cell", "covered-table-cell"):
                text = " ".join(self._all_text(cell).split())
                yield from [text] * (min(_number(cell, "number-columns-repeated", 1), _MOST_REPEATS) if text else 1)
