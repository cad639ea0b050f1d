"""Word and PowerPoint documents (.docx, .pptx), read by office-oxide into a tree that is written block by block."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import MissingExtraError, ParseError
from rag_pipeline.parsing.archives import Archive
from rag_pipeline.parsing.builder import TextBuilder
from rag_pipeline.parsing.reasons import ONLY_PICTURES, first_line, pages_phrase
from rag_pipeline.parsing.tables import Cell, rows_in_line

WORD_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
SLIDES_TYPE = "application/vnd.openxmlformats-officedocument.presentationml.presentation"

_WITHOUT_TEXT = ("media/", "fonts/", "embeddings/", "vbaProject", "thumbnail")
_RUBY = re.compile(rb"<w:ruby>(?:(?!</w:ruby>).)*?<w:rubyBase>(.*?)</w:rubyBase>\s*</w:ruby>", re.DOTALL)
_UNREADABLE = re.compile(r'\[unreadable slide "[^"]*": (.*)\]', re.DOTALL)
"""What office-oxide has in place of a slide that it cannot read."""
_NAMED = 3
_DEEPEST_INDENT = 8
_LONGEST_TITLE = 120
_Node = Mapping[str, Any]


def parse_word(data: bytes) -> Parsed:
    """Parse a .docx. Metadata are ``author`` and ``created`` where the file has them.

    Raises:
        ParseError: it is damaged, or holds no text.
    """
    builder = TextBuilder()
    tree = _tree(data, "docx", builder)
    writer = _Writer(builder)
    sections = tree.get("sections") or []
    writer.repeated(
        section.get(name) for section in sections for name in ("header", "first_page_header", "even_page_header")
    )
    for section in sections:
        writer.blocks(section.get("elements") or ())
    writer.repeated(
        section.get(name) for section in sections for name in ("footer", "first_page_footer", "even_page_footer")
    )
    if not builder.blocks and any("/media/" in name for name in Archive(data).names):
        raise ParseError(ONLY_PICTURES)
    return builder.build(WORD_TYPE, _title(tree, _title_line(sections)) or builder.top_heading, _metadata(tree))


def parse_slides(data: bytes) -> Parsed:
    """Parse a .pptx: a slide is a page, its title a heading; speaker notes follow their slide.

    Raises:
        ParseError: it is damaged, or holds no text.
    """
    builder = TextBuilder()
    tree = _tree(data, "pptx", builder)
    pictures: list[int] = []
    unreadable: dict[int, str] = {}
    for number, slide in enumerate(tree.get("sections") or (), 1):
        builder.page(number)
        writer = _Writer(builder, heading_level=1)
        elements = _from_the_left(slide.get("elements") or ())
        notes = slide.get("speaker_notes") or ()
        if len(elements) == 1 and (found := _UNREADABLE.fullmatch(_text_of(elements[0]).strip())) is not None:
            unreadable[number] = found[1]
            continue
        if not any(_text_of(element).strip() for element in (*elements, *notes)):
            if elements:
                pictures.append(number)
            continue
        if elements and elements[0].get("type") != "heading":
            builder.heading(1, slide.get("title") or f"Slide {number}")
        writer.blocks(elements)
        if any(map(_text_of, notes)):
            builder.block("Notes:")
            writer.blocks(notes)
    if pictures and not unreadable and not builder.blocks:
        raise ParseError(ONLY_PICTURES)
    if unreadable:
        builder.loss(f"{pages_phrase(list(unreadable))} cannot be read: {next(iter(unreadable.values()))}")
    if pictures:
        builder.loss(f"{pages_phrase(pictures)}: pictures without text")
    return builder.build(SLIDES_TYPE, _title(tree, None), _metadata(tree))


def _from_the_left(elements: Sequence[_Node]) -> list[_Node]:
    """What stands on a slide, of boxes side by side the left one first; they come with the higher one first."""
    ordered: list[_Node] = []
    beside: list[_Node] = []
    for element in (*elements, {}):
        if beside and not _is_beside(beside[0], element):
            ordered += sorted(beside, key=lambda box: (box["x_emu"], box["y_emu"]))
            beside = []
        if "y_emu" in element and "x_emu" in element:
            beside.append(element)
        elif element:
            ordered.append(element)
    return ordered


def _is_beside(first: _Node, second: _Node) -> bool:
    """Whether half of the lower one of two boxes is at the height of the other."""
    if "y_emu" not in second or "x_emu" not in second:
        return False
    height, other = (int(box.get("height_emu") or 0) for box in (first, second))
    shared: int = min(first["y_emu"] + height, second["y_emu"] + other) - max(first["y_emu"], second["y_emu"])
    return shared > min(height, other) / 2


def _tree(data: bytes, kind: Any, builder: TextBuilder) -> _Node:
    """The document as office-oxide has it. Parts that cannot be unpacked are noted as lost."""
    try:
        from office_oxide import Document, OfficeOxideError
    except ImportError:
        raise MissingExtraError("office-oxide", "pipeline", "Reading Word and PowerPoint documents") from None
    # Pictures would come as text in base 64. What is copied has been unpacked within bounds.
    data, damaged = Archive(data).copy(lambda name: not any(part in name for part in _WITHOUT_TEXT), _without_ruby)
    if damaged:
        more = f" and {len(damaged) - _NAMED} more parts" if len(damaged) > _NAMED else ""
        builder.loss(f"{', '.join(damaged[:_NAMED])}{more} cannot be unpacked")
    try:
        with Document.from_bytes(data, kind) as document:
            tree: _Node = document.to_ir()
    except OfficeOxideError as error:
        raise ParseError(f"damaged: {first_line(error)}") from error
    return tree


def _without_ruby(name: str, part: bytes) -> bytes:
    """A part of a Word document in which words with readings above them stand without: office-oxide loses both."""
    return _RUBY.sub(rb"</w:r>\1<w:r>", part) if name.startswith("word/") and b"<w:ruby>" in part else part


def _title(tree: _Node, line: str | None) -> str | None:
    """The title in the properties, or else the line above the first heading, or that heading.

    Where the properties have none, office-oxide gives the first heading.
    """
    title = " ".join(str((tree.get("metadata") or {}).get("title") or "").split())
    if title.casefold() in ("powerpoint presentation", "presentation", "untitled", "document"):
        title = ""
    headings = {" ".join(str(section.get("title") or "").split()) for section in tree.get("sections") or ()}
    return line if line and (not title or title in headings) else title or None


def _title_line(sections: Sequence[_Node]) -> str | None:
    """A short first line that stands above the first heading: a paragraph in the style of titles is no heading."""
    elements = [element for section in sections[:1] for element in section.get("elements") or ()]
    if not any(element.get("type") == "heading" for element in elements):
        return None
    first: _Node = next((element for element in elements if _text_of(element).strip()), {})
    text = " ".join(_text_of(first).split())
    is_line = first.get("type") == "paragraph" and len(text) <= _LONGEST_TITLE and not text.endswith((".", ":", ","))
    return text if is_line else None


def _metadata(tree: _Node) -> dict[str, Any]:
    known = tree.get("metadata") or {}
    return {name: known[name] for name in ("author", "created") if isinstance(known.get(name), str) and known[name].strip()}


def _text_of(node: _Node) -> str:
    """All text of a node, its paragraphs on lines of their own."""
    match node.get("type"):
        case "text":
            return str(node.get("text") or "")
        case "line_break":
            return "\n"
        case "image":
            return f" {node.get('alt_text') or ''} "
        case "table":
            return "\n".join(", ".join(filter(None, cells)) for cells in _grid(node))
        case "list":
            return "\n".join(_text_of(child) for item in node.get("items") or () for child in _parts(item))
    children = [_text_of(child) for child in node.get("content") or ()]
    inline = node.get("type") in ("paragraph", "heading")
    return "".join(children) if inline else "\n".join(children)


def _parts(item: _Node) -> list[_Node]:
    """What stands in an item of a list; the list of the next level is kept apart from the rest."""
    nested = item.get("nested")
    return [*(item.get("content") or ()), *([{**nested, "type": "list"}] if nested else ())]


def _grid(table: _Node) -> Iterator[list[str]]:
    return rows_in_line(
        [
            Cell(
                " ".join(_text_of({"content": cell.get("content")}).split()),
                int(cell.get("col_span") or 1),
                int(cell.get("row_span") or 1),
            )
            for cell in row.get("cells") or ()
        ]
        for row in table.get("rows") or ()
    )


class _Writer:
    def __init__(self, builder: TextBuilder, heading_level: int | None = None) -> None:
        self._builder = builder
        self._heading_level = heading_level
        self._notes: dict[Any, int] = {}

    def repeated(self, parts: Iterator[_Node | None]) -> None:
        """Headers or footers, what several sections share only once."""
        seen: set[str] = set()
        for part in parts:
            text = _text_of(part).strip() if part else ""
            if text and text not in seen:
                seen.add(text)
                self._builder.block(text)

    def blocks(self, nodes: Sequence[_Node]) -> None:
        for node in nodes:
            self._block(node)

    def _block(self, node: _Node) -> None:
        match node.get("type"):
            case "heading":
                self._builder.heading(self._heading_level or int(node.get("level") or 1), _text_of(node))
            case "list":
                self._list(node, int(node.get("level") or 0))
            case "table":
                self._table(node)
            case "text_box":
                self.blocks(node.get("content") or ())
            case "footnote" | "endnote":
                marker = node.get("marker") or node.get("id")
                self._builder.block(f"[{marker}] {_text_of(node).strip()}")
            case "code_block":
                self._builder.code(_text_of(node))
            case _:
                self._builder.block(_text_of(node).strip())

    def _list(self, node: _Node, depth: int) -> None:
        indent = "  " * min(depth, _DEEPEST_INDENT)
        for number, item in enumerate(node.get("items") or (), int(node.get("start_number") or 1)):
            sign = f"{number}." if node.get("ordered") else "-"
            for child in _parts(item):
                if child.get("type") in ("list", "table", "text_box"):
                    self._list(child, depth + 1) if child.get("type") == "list" else self._block(child)
                elif text := _text_of(child).strip():
                    self._builder.block(f"{indent}{sign} {text}" if sign else f"{indent}  {text}", tight=True)
                    sign = ""

    def _table(self, node: _Node) -> None:
        rows = list(_grid(node))
        if max(map(len, rows), default=0) == 1:
            for row in node.get("rows") or ():  # a frame around text
                for cell in row.get("cells") or ():
                    self.blocks(cell.get("content") or ())
        else:
            self._builder.rows(rows)
