"""The content of an HTML page as readable text."""

from __future__ import annotations

import re
from typing import Any

from rag_pipeline.parsing.builder import TextBuilder
from rag_pipeline.parsing.html_content import Content
from rag_pipeline.parsing.html_tree import HtmlTree
from rag_pipeline.parsing.tables import Cell, rows_in_line

HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_LISTS = frozenset({"ul", "ol", "menu", "dir"})
_VERBATIM = frozenset({"pre", "xmp", "listing", "plaintext", "textarea"})
_BLOCKS = HEADINGS | _LISTS | _VERBATIM | {
    "address", "article", "aside", "blockquote", "body", "caption", "center", "col", "colgroup", "dd", "details",
    "dialog", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr",
    "html", "legend", "li", "main", "nav", "p", "search", "section", "summary", "table", "tbody", "td", "tfoot",
    "th", "thead", "tr",
}  # fmt: skip
_DEEPEST_INDENT = 8  # levels; items of deeper lists stand in the same column
_LONGEST_HEADING = 300  # characters; a longer one is a page whose heading was not closed, or text made large
_LONGEST_CELL = 1500  # characters; a table with a longer one lays out the page
_MOST_SPANNED = 1_000  # as HTML has it for columns
_LAYOUT_ROLES = frozenset({"presentation", "none"})
_ANCHOR_SIGNS = frozenset({"", "¶", "#", "§", "🔗"})
_ANCHOR_CLASSES = re.compile(r"(?:^|\s)(?:headerlink|anchor-?link|hash-link|mw-editsection)(?:\s|$)")
_LINE_NUMBERS = re.compile(
    r"(?:^|\s)(?:line-?nos?|line-?numbers?(?:-rows)?|linenodiv|gutter|hljs-ln-numbers|blob-num)(?:\s|$)"
)
_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight)-([\w+#.-]+)")
_NO_LANGUAGES = frozenset({"default", "none", "plaintext", "text"})
_PRESERVED = re.compile(r"white-space\s*:\s*(?:pre|break-spaces)(?!-line)", re.IGNORECASE)
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,9}")
_SOFT_HYPHEN = "\u00ad"


def says_title(tree: HtmlTree, content: Content, title: str) -> bool:
    """Whether a level-1 heading of the content says the page's title, or the part of it that is not the site's name."""
    return any(
        tree.length(index) <= _LONGEST_HEADING
        and _one_in_other(title.casefold(), inline_text(tree, content, index, heading=True).casefold())
        for index in content.elements(tree, "h1")
    )


def _one_in_other(first: str, second: str) -> bool:
    return bool(first and second) and (first in second or second in first)


def inline_text(tree: HtmlTree, content: Content, index: int, *, heading: bool = False) -> str:
    """The text of an element on one line; of a heading without its permanent link and edit button."""
    parts: list[str] = []
    end = tree.ends[index]
    index += 1
    while index < end:
        name = tree.names[index]
        if not name:
            parts.append(tree.texts[index])
        elif index in content.dropped or (heading and _is_anchor(tree, content, index)):
            index = tree.ends[index]
            continue
        elif name == "img":
            parts.append(f" {tree.attributes[index].get('alt') or ''} ")
        elif name == "br" or name in _BLOCKS:
            parts.append(" ")
        index += 1
    return _collapsed("".join(parts))


def _is_anchor(tree: HtmlTree, content: Content, index: int) -> bool:
    name = tree.names[index]
    if name not in ("a", "span"):
        return False
    if _ANCHOR_CLASSES.search(tree.attribute(index, "class")):
        return True
    return name == "a" and "href" in tree.attributes[index] and inline_text(tree, content, index) in _ANCHOR_SIGNS


def render(tree: HtmlTree, content: Content, builder: TextBuilder) -> None:
    """Write the content of a page, block by block."""
    _Renderer(tree, content, builder).run()


class _Renderer:
    def __init__(self, tree: HtmlTree, content: Content, builder: TextBuilder) -> None:
        self._tree = tree
        self._content = content
        self._builder = builder
        self._lines: list[list[str]] = [[]]  # of the block at hand
        self._next_numbers: list[int | None] = []  # of the lists around, None for those with bullets
        self._sign_due = ""

    def run(self) -> None:
        tree = self._tree
        opened: list[int] = []
        index, end = self._content.root, tree.ends[self._content.root]
        while index < end:
            while opened and tree.ends[opened[-1]] <= index:
                self._close(opened.pop())
            name = tree.names[index]
            if not name:
                self._lines[-1].append(tree.texts[index])
            elif index in self._content.dropped or (name == "td" and _LINE_NUMBERS.search(tree.attribute(index, "class"))):
                self._flush()
                index = tree.ends[index]
                continue
            elif name == "br":
                self._lines.append([])
            elif name == "img":
                self._lines[-1].append(f" {tree.attributes[index].get('alt') or ''} ")
            elif self._whole(index, name):
                index = tree.ends[index]
                continue
            elif name in _BLOCKS:
                self._open(index, name)
                opened.append(index)
            index += 1
        self._flush()

    def _whole(self, index: int, name: str) -> bool:
        """Write an element at once, if it is a heading, a table of data, or verbatim."""
        tree = self._tree
        if name in HEADINGS and tree.length(index) <= _LONGEST_HEADING:
            self._flush()
            self._builder.heading(int(name[1]), inline_text(tree, self._content, index, heading=True))
            return True
        if name in _VERBATIM or (
            (style := tree.attributes[index].get("style"))
            and _PRESERVED.search(style)
            and tree.first_below(index, HEADINGS | {"p", "table", "pre"}) is None
            and "\n" in self._verbatim_text(index).strip()
        ):
            self._flush()
            self._builder.code(self._verbatim_text(index), self._language(index))
            return True
        if name == "table" and self._holds_data(index):
            self._flush()
            self._table(index)
            return True
        return False

    def _open(self, index: int, name: str) -> None:
        self._flush()
        if name in _LISTS:
            self._next_numbers.append(_whole_number(self._tree.attribute(index, "start"), 1) if name == "ol" else None)
            self._sign_due = ""
        elif name == "li":
            self._sign_due = "- "
            if self._next_numbers and (number := self._next_numbers[-1]) is not None:
                number = _whole_number(self._tree.attribute(index, "value"), number)
                self._next_numbers[-1] = number + 1
                self._sign_due = f"{number}. "

    def _close(self, index: int) -> None:
        self._flush()
        name = self._tree.names[index]
        if name in _LISTS:
            self._next_numbers.pop()
        elif name == "li":
            self._sign_due = ""

    def _flush(self) -> None:
        """Write the block at hand, its white space collapsed and its ``<br>`` as line ends."""
        if len(self._lines) == 1 and not self._lines[0]:
            return
        lines = [_collapsed("".join(parts)) for parts in self._lines]
        self._lines = [[]]
        while lines and not lines[-1]:
            lines.pop()
        while lines and not lines[0]:
            lines.pop(0)
        if not lines:
            return
        in_list = bool(self._next_numbers or self._sign_due)
        if in_list:
            depth = max(1, min(len(self._next_numbers), _DEEPEST_INDENT))
            first = "  " * (depth - 1) + (self._sign_due or "  ")
            text = first + ("\n" + "  " * depth).join(lines)
        else:
            text = "\n".join(lines)
        self._sign_due = ""
        self._builder.block(re.sub(r"\n\s*\n\s*\n", "\n\n", text), tight=in_list)

    def _verbatim_text(self, index: int) -> str:
        """The text of an element with its white space, a block of it on lines of its own, without line numbers."""
        tree = self._tree
        parts: list[str] = []
        opened: list[int] = []
        end = tree.ends[index]
        index += 1
        while index < end:
            while opened and tree.ends[opened[-1]] <= index:
                opened.pop()
                _end_line(parts)
            name = tree.names[index]
            if not name:
                parts.append(tree.texts[index])
            elif index in self._content.dropped or _LINE_NUMBERS.search(tree.attribute(index, "class")):
                index = tree.ends[index]
                continue
            elif name == "br":
                parts.append("\n")
            elif name in _BLOCKS:
                _end_line(parts)
                opened.append(index)
            index += 1
        return "".join(parts)

    def _language(self, index: int) -> str:
        """The language of code as classes on it, its ``<code>`` or the two elements around it name it."""
        tree = self._tree
        around = [index, tree.first_below(index, {"code"}), tree.parents[index]]
        around.append(tree.parents[tree.parents[index]] if tree.parents[index] >= 0 else -1)
        for place in around:
            if place is not None and place >= 0 and (match := _LANGUAGE.search(tree.attribute(place, "class"))):
                return "" if match.group(1) in _NO_LANGUAGES else match.group(1)
        return ""

    def _holds_data(self, index: int) -> bool:
        """Whether a table holds data, and does not lay out a page or number the lines of code."""
        tree = self._tree
        if tree.attribute(index, "role") in _LAYOUT_ROLES:
            return False
        if tree.first_below(index, HEADINGS | {"table"}) is not None:
            return False
        if tree.first_below(index, {"th"}) is None and tree.first_below(index, _VERBATIM) is not None:
            return False
        cells = most_cells = 0
        for place in range(index + 1, tree.ends[index]):
            if tree.names[place] == "tr":
                cells = 0
            elif tree.names[place] in ("td", "th"):
                cells += 1
                most_cells = max(most_cells, cells)
                if tree.length(place) > _LONGEST_CELL:
                    return False
        return most_cells > 1

    def _table(self, index: int) -> None:
        tree = self._tree
        rows: list[list[Cell]] = []
        end = tree.ends[index]
        index += 1
        while index < end:
            name = tree.names[index]
            if index in self._content.dropped:
                index = tree.ends[index]
                continue
            if name == "caption":
                self._builder.block(inline_text(tree, self._content, index))
            elif name == "tr":
                rows.append([])
            elif name in ("td", "th"):
                rows[-1].append(
                    Cell(inline_text(tree, self._content, index), self._span(index, "colspan"), self._span(index, "rowspan"))
                )
            if name in ("caption", "td", "th"):
                index = tree.ends[index]
            else:
                index += 1
        self._builder.rows(list(rows_in_line(rows)))

    def _span(self, index: int, name: str) -> int:
        span = self._tree.attribute(index, name).strip()
        return min(max(int(span), 1), _MOST_SPANNED) if span.isdecimal() else 1


def _whole_number(text: str, default: int) -> int:
    return int(text) if _WHOLE_NUMBER.fullmatch(text.strip()) else default


def _collapsed(text: str) -> str:
    return " ".join(text.replace(_SOFT_HYPHEN, "").split())


def _end_line(parts: list[str]) -> None:
    if parts and not parts[-1].endswith("\n"):
        parts.append("\n")


def page_title(parser: Any) -> str | None:
    """The ``<title>`` of a page; pictures within it may have one, too."""
    for node in parser.css("title"):
        if node.parent is None or node.parent.tag != "svg":
            return _collapsed(node.text()) or None
    return None
