"""docutils' tree of a document as readable text. This module is imported only where docutils is at hand."""

from __future__ import annotations

import re

from docutils import nodes

from rag_pipeline.parsing.builder import TextBuilder
from rag_pipeline.parsing.tables import Cell, rows_in_line

_SILENT = (
    nodes.comment, nodes.decoration, nodes.pending, nodes.raw, nodes.substitution_definition, nodes.target,
)  # fmt: skip
_LONGEST_CELL = 1500
_DEEPEST_INDENT = 8
_ERROR = 3
"""The level of docutils' messages from which on a block of the source was not understood."""
_DIRECTIVE_LINE = re.compile(r"\s*\.\.\s+(?:\|[^|]*\|\s*)?([\w.+:-]+?)\s?::[ \t]*(.*)")
_OPTION_LINE = re.compile(r"\s*:[^:\s][^:]*:(?:\s|$)")
_FILE_DIRECTIVES = frozenset({"figure", "image", "include", "literalinclude", "raw"})


def render(document: nodes.document, builder: TextBuilder) -> None:
    """Write a document, block by block."""
    _Renderer(builder).children(document)


class _Renderer:
    def __init__(self, builder: TextBuilder) -> None:
        self._builder = builder
        self._section_depth = 0
        self._list_depth = 0
        self._sign_due = ""

    def children(self, node: nodes.Element) -> None:
        for child in node.children:
            self._write(child)

    def _write(self, node: nodes.Node) -> None:
        match node:
            case nodes.system_message():
                self._not_understood(node)
            case nodes.section():
                self._section_depth += 1
                self.children(node)
                self._section_depth -= 1
            case nodes.title() if isinstance(node.parent, nodes.section):
                self._builder.heading(self._section_depth, node.astext())
            case nodes.literal_block() | nodes.doctest_block() | nodes.math_block():
                self._code(node)
            case nodes.bullet_list() | nodes.enumerated_list():
                self._list(node)
            case nodes.table():
                self._table(node)
            case nodes.field():
                self._labelled(f"{node[0].astext()}:", node[1])
            case nodes.option_list_item():
                self._labelled(node[0].astext(), node[1])
            case nodes.footnote() | nodes.citation():
                label = node[0].astext() if isinstance(node[0], nodes.label) else ""
                self._labelled(f"[{label}]", node)
            case nodes.definition_list_item():
                self._definition(node)
            case nodes.line_block():
                self._block("\n".join(_lines(node)))
            case nodes.image():
                self._paragraph(node.get("alt", ""))
            case nodes.TextElement():
                if not isinstance(node, (*_SILENT, nodes.label)):
                    self._paragraph(node.astext())
            case nodes.Element():
                if not isinstance(node, _SILENT):
                    self.children(node)

    def _paragraph(self, text: str) -> None:
        self._block(" ".join(text.split()))

    def _block(self, text: str) -> None:
        if not text.strip():
            return
        depth = min(self._list_depth, _DEEPEST_INDENT)
        if depth:
            indent = "  " * depth
            first = indent[:-2] + self._sign_due if self._sign_due else indent
            text = first + text.replace("\n", "\n" + indent)
        self._sign_due = ""
        self._builder.block(text, tight=depth > 0)

    def _code(self, node: nodes.Node) -> None:
        classes = [name for name in getattr(node, "attributes", {}).get("classes", []) if name != "code"]
        self._builder.code(node.astext(), classes[0] if classes else "")

    def _list(self, node: nodes.Element) -> None:
        self._list_depth += 1
        for number, item in enumerate(node.children, int(node.get("start", 1))):
            self._sign_due = f"{number}. " if isinstance(node, nodes.enumerated_list) else "- "
            if isinstance(item, nodes.Element):
                self.children(item)
        self._sign_due = ""
        self._list_depth -= 1

    def _labelled(self, label: str, body: nodes.Node) -> None:
        """A label with the first paragraph of its body behind it."""
        rest = [child for child in body.children if not isinstance(child, nodes.label)]
        text = label
        if rest and isinstance(rest[0], nodes.paragraph):
            text = f"{label} {rest.pop(0).astext()}"
        self._paragraph(text)
        for child in rest:
            self._write(child)

    def _definition(self, node: nodes.Element) -> None:
        terms = [child.astext() for child in node.children if not isinstance(child, nodes.definition)]
        self._paragraph(" : ".join(terms))
        for child in node.children:
            if isinstance(child, nodes.definition):
                self.children(child)

    def _table(self, node: nodes.Element) -> None:
        cells = list(node.findall(nodes.entry))
        if any(
            len(cell.astext()) > _LONGEST_CELL or any(cell.findall(nodes.literal_block)) or any(cell.findall(nodes.table))
            for cell in cells
        ):
            self.children(node)
            return
        for title in node.findall(nodes.title):
            self._paragraph(title.astext())
        rows = (
            [_cell(entry) for entry in row.children if isinstance(entry, nodes.entry)] for row in node.findall(nodes.row)
        )
        self._builder.rows(list(rows_in_line(rows)))

    def _not_understood(self, message: nodes.system_message) -> None:
        """Keep the text of a block that docutils could not read, such as a directive with a wrong option."""
        if message["level"] < _ERROR:
            return
        for source in message.findall(nodes.literal_block):
            lines = source.astext().split("\n")
            if (directive := _DIRECTIVE_LINE.match(lines[0])) is not None:
                lines[0] = "" if directive.group(1).lower() in _FILE_DIRECTIVES else directive.group(2)
                lines[1:] = _without_options(lines[1:])
            self._block("\n".join(line.strip() for line in lines).strip())


def _cell(entry: nodes.entry) -> Cell:
    text = " ".join(entry.astext().split())
    return Cell(text, 1 + int(entry.get("morecols", 0)), 1 + int(entry.get("morerows", 0)))


def _without_options(lines: list[str]) -> list[str]:
    for position, line in enumerate(lines):
        if not _OPTION_LINE.match(line):
            return lines[position:]
    return []


def _lines(block: nodes.Element, indent: str = "") -> list[str]:
    lines: list[str] = []
    for child in block.children:
        if isinstance(child, nodes.line_block):
            lines += _lines(child, indent + "  ")
        else:
            lines.append(indent + " ".join(child.astext().split()))
    return lines
