"""Finds headings, fences and tables in Markdown, after the block rules of CommonMark 0.31 and of GFM's tables.

One regular expression runs over the whole text and stops only at lines that may matter, so that the cost is that of a
search in C and not of a loop over lines.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from rag_pipeline.contracts import Span
from rag_pipeline.parsing.markdown_inline import heading_text
from rag_pipeline.parsing.sections import Heading

# Each alternative begins with the line end before its line: a literal first character makes the search quick.
_EVENT = re.compile(
    r"\n(?P<indent>[ \t]*)(?:"
    r"(?P<quote>>[ \t>]*)?(?P<marker>(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)?(?P<fence>`{3,}(?=[^`\n]*(?:\n|\Z))|~{3,})"
    r"|(?P<atx>#{1,6})(?=[ \t\n]|\Z)"
    r"|(?P<underline>=+|-+)[ \t]*(?=\n|\Z)"
    r"|<(?P<comment>!--)"
    r"|<(?P<verbatim>(?i:pre|script|style|textarea))(?=[\s>]|\Z)"
    r"|<[hH](?P<tagged>[1-6])(?=[\s>])"
    r")"
)
_ITEM = re.compile(r"([ \t]*)([-*+]|[0-9]{1,9}[.)])([ \t]+|$)")
_LEADING = re.compile(r"[ \t]*")
_THEMATIC_BREAK = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|(?:-[ \t]*){3,})$")
_NEXT_FENCE = re.compile(r"\n([ \t]*)(`{3,}|~{3,})([^\n]*)")
_VERBATIM_END = re.compile(r"</(?:pre|script|style|textarea)>", re.IGNORECASE)
_TAGGED_END = re.compile(r"</[hH][1-6]>")
_DELIMITER_ROW = re.compile(r"\n[ \t]*(?:\|[ \t]*:?-|:?-+:?[ \t]*\|)[-:| \t]*(?=\n|\Z)")
_TABLE_ROWS = re.compile(r"(?:\n[^\n|]*\|[^\n]*)*")
# What no line above an underline may be (a quote, an item of a list, a row of a table), and what the first may not be
# (indented code, a definition).
_NO_PARAGRAPH = re.compile(r"[ \t]*(?:>|(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]|$)|\|)")
_NO_PARAGRAPH_START = re.compile(r"(?: {4}| {0,3}\t| {0,3}\[[^\]\n]+\]:)")
# HTML blocks of CommonMark's kinds 4, 6 and 7; a line after one of them belongs to it.
_HTML_BLOCK = re.compile(
    r" {0,3}(?:<[!?]|</?(?:address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details"
    r"|dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|head|header|hr|html|iframe|legend|li"
    r"|link|main|menu|menuitem|nav|noframes|ol|optgroup|option|p|param|search|section|summary|table|tbody|td|tfoot|th"
    r"|thead|title|tr|track|ul)(?=[\s/>]|$)|</?[A-Za-z][^<>]*>[ \t]*$)",
    re.IGNORECASE,
)
_LONGEST_UNDERLINED = 3  # lines; a longer paragraph above dashes is a paragraph above a break to everyone but the rules
_LONGEST_TAGGED = 2000
_LINES_LOOKED_BACK = 200


class Blocks(NamedTuple):
    """Headings and atoms of a text, each in order."""

    headings: list[Heading]
    atoms: list[Span]


def find_blocks(text: str, body_start: int = 0) -> Blocks:
    """Find the headings and atoms of a Markdown text.

    Args:
        text: the text, its lines ending with ``\\n``.
        body_start: where to begin.
    """
    return _Scanner(text, body_start).scan()


class _Block(NamedTuple):
    """A fence or verbatim HTML, and the column of the list item that holds it (0 outside lists, None if not known)."""

    start: int
    end: int
    item_offset: int | None


class _LookUp(NamedTuple):
    """What was found for the last line whose list item was looked for: see ``_Scanner._item_offset``."""

    position: int
    indent: int
    item_offset: int


class _Scanner:
    """Offsets in this class are those of ``"\\n" + text``; what it hands out is in offsets of the text."""

    def __init__(self, text: str, body_start: int) -> None:
        self._text = "\n" + text
        self._body_start = body_start
        self._floor = body_start  # a paragraph cannot begin before this
        self._headings: list[Heading] = []
        self._blocks: list[_Block] = []
        self._looked_up = _LookUp(-1, 0, 0)
        self._verbatim_unclosed = False

    def scan(self) -> Blocks:
        position = self._body_start
        while (match := _EVENT.search(self._text, position)) is not None:
            match match.lastgroup:
                case "fence":
                    position = self._fence(match)
                case "atx":
                    position = self._atx(match)
                case "underline":
                    position = self._underline(match)
                case "comment":
                    position = self._comment(match)
                case "verbatim":
                    position = self._verbatim(match)
                case _:
                    position = self._tagged(match)
        spans = sorted([*((block.start, block.end) for block in self._blocks), *self._tables()])
        return Blocks(self._headings, [Span(start=start - 1, end=end - 1) for start, end in spans])

    def _line_end(self, position: int) -> int:
        end = self._text.find("\n", position)
        return len(self._text) if end < 0 else end

    def _add_heading(self, start: int, end: int, level: int, raw: str) -> int:
        """Add a heading of the lines ``[start, end)``; one without a visible title is none."""
        title = heading_text(raw)
        if title:
            self._headings.append(Heading(start - 1, end - 1, level, title))
        self._floor = end
        return end

    def _add_block(self, start: int, end: int, item_offset: int | None) -> int:
        self._blocks.append(_Block(start, end, item_offset))
        self._floor = end
        return end

    def _atx(self, match: re.Match[str]) -> int:
        end = self._line_end(match.end())
        if _width(match["indent"]) > 3:
            return end
        return self._add_heading(match.start() + 1, end, len(match["atx"]), self._text[match.end() : end])

    def _underline(self, match: re.Match[str]) -> int:
        end = match.end()
        lines: list[str] = []
        start = match.start()
        while start > self._floor and len(lines) <= _LONGEST_UNDERLINED:
            previous = self._text.rfind("\n", 0, start)
            line = self._text[previous + 1 : start]
            if not line.strip() or _THEMATIC_BREAK.match(line):
                break
            lines.insert(0, line)
            start = previous
        if (
            not lines
            or len(lines) > _LONGEST_UNDERLINED
            or _width(match["indent"]) > 3
            or _NO_PARAGRAPH_START.match(lines[0])
            or any(_NO_PARAGRAPH.match(line) or _HTML_BLOCK.match(line) for line in lines)
        ):
            return end
        return self._add_heading(start + 1, end, 1 if match["underline"][0] == "=" else 2, " ".join(lines))

    def _comment(self, match: re.Match[str]) -> int:
        if _width(match["indent"]) > 3:
            return match.end()
        end = self._text.find("-->", match.end() - 2)  # `<!-->` is a comment too
        self._floor = len(self._text) if end < 0 else self._line_end(end)
        return self._floor

    def _verbatim(self, match: re.Match[str]) -> int:
        if _width(match["indent"]) > 3 or self._verbatim_unclosed:
            return match.end()
        closing = _VERBATIM_END.search(self._text, match.end())
        if closing is None:
            self._verbatim_unclosed = True
            return match.end()
        return self._add_block(match.start() + 1, self._line_end(closing.end()), None)

    def _tagged(self, match: re.Match[str]) -> int:
        closing = _TAGGED_END.search(self._text, match.end(), match.end() + _LONGEST_TAGGED)
        if closing is None or _width(match["indent"]) > 3:
            return match.end()
        raw = self._text[match.end() : closing.start()].partition(">")[2]
        return self._add_heading(match.start() + 1, self._line_end(closing.end()), int(match["tagged"]), raw)

    def _fence(self, match: re.Match[str]) -> int:
        opened = self._line_end(match.end())
        if match["quote"]:
            return self._quoted_fence(match, opened)
        indent = _width(match["indent"])
        container = self._item_offset(match.start(), indent) if indent else 0
        if indent - container > 3:
            return opened
        if match["marker"]:
            container = indent = _width(match["indent"] + match["marker"])
        end = self._fence_end(match["fence"], opened, indent, container)
        return self._add_block(match.start() + 1, end, container)

    def _quoted_fence(self, match: re.Match[str], opened: int) -> int:
        """A fence in a quote ends with the quote."""
        closing = _closing_in_quote(match["fence"][0], len(match["fence"])).search(self._text, opened)
        end = closing.end() if closing else len(self._text)
        return self._add_block(match.start() + 1, end, None)

    def _fence_end(self, fence: str, opened: int, indent: int, container: int) -> int:
        """Where a fence ends whose opening line ends at ``opened``.

        Args:
            indent: columns before the fence.
            container: columns before the content of the list item that holds it; 0 outside lists.
        """
        closing = _closing(fence[0], len(fence), container).search(self._text, opened)
        if closing is None:
            return len(self._text)
        if container == 0 or closing["fence"]:
            return closing.end()
        # The item ends here and the fence with it, unless only the code was indented carelessly: then a closing fence
        # follows that is indented as the opening one.
        following = _NEXT_FENCE.search(self._text, closing.start())
        if following and following[2].startswith(fence) and not following[3].strip() and _width(following[1]) == indent:
            return following.end()
        return closing.start()

    def _item_offset(self, position: int, indent: int) -> int:
        """The column at which the content of the list item begins that holds a line; 0 if none does.

        Args:
            position: where the line end before that line stands.
            indent: columns before the line's first character.
        """
        offset = self._look_back(position, indent)
        self._looked_up = _LookUp(position, indent, offset)
        return offset

    def _look_back(self, position: int, indent: int) -> int:
        limit, pending = indent, indent
        blocks = len(self._blocks)
        for _ in range(_LINES_LOOKED_BACK):
            if position <= self._body_start:
                return 0
            start = self._text.rfind("\n", 0, position)
            if blocks and self._blocks[blocks - 1].end > start + 1:
                blocks -= 1
                block = self._blocks[blocks]
                start = block.start - 1
                position = self._line_end(block.start)
                limit = min(limit, pending)  # no lazy line follows a block
                if block.item_offset is not None and block.item_offset <= limit:
                    return block.item_offset
            if start == self._looked_up.position and self._looked_up.item_offset <= limit <= self._looked_up.indent:
                return self._looked_up.item_offset
            line = self._text[start + 1 : position]
            position = start
            if not line.strip():
                limit = min(limit, pending)
            elif (item := _ITEM.match(line)) and not _THEMATIC_BREAK.match(line):
                offset = _width(item[1] + item[2] + (item[3] if 0 < _width(item[3]) <= 4 else " "))
                if offset <= limit:
                    return offset
                limit = min(limit, _width(item[1]))
            else:
                pending = min(pending, _width(_leading(line)))
                if _THEMATIC_BREAK.match(line) or line.lstrip().startswith(("#", "`", "~", "<")):
                    limit = min(limit, pending)  # no lazy line of a paragraph
            if limit == 0:
                return 0
        return indent  # a list item of hundreds of lines

    def _tables(self) -> list[tuple[int, int]]:
        if "|" not in self._text:
            return []
        tables: list[tuple[int, int]] = []
        blocks = iter(self._blocks)
        block = next(blocks, None)
        end = self._body_start
        for match in _DELIMITER_ROW.finditer(self._text, self._body_start):
            while block and block.end <= match.start():
                block = next(blocks, None)
            next_block = block.start if block else len(self._text) + 1
            header = self._text.rfind("\n", 0, match.start()) + 1
            if next_block <= match.end() or header <= end or "|" not in self._text[header : match.start()]:
                continue
            rows = _TABLE_ROWS.match(self._text, match.end())
            end = min(rows.end() if rows else match.end(), next_block - 1)
            tables.append((header, end))
        return tables


def _width(indent: str) -> int:
    return len(indent.expandtabs(4))


def _leading(line: str) -> str:
    match = _LEADING.match(line)
    return match.group() if match else ""


@cache
def _closing(character: str, least: int, container: int) -> re.Pattern[str]:
    """A line that closes a fence of at least so many characters, or that ends the list item which holds the fence.

    In a list any indentation will do for the closing fence.
    """
    fence = rf"(?P<fence>{re.escape(character)}{{{least},}})[ \t]*(?=\n|\Z)"
    if container == 0:
        return re.compile(rf"\n {{0,3}}{fence}")
    return re.compile(rf"\n(?:[ \t]*{fence}| {{0,{container - 1}}}(?=[^ \t\n]))")


@cache
def _closing_in_quote(character: str, least: int) -> re.Pattern[str]:
    """A line that closes a fence of at least so many characters, or the end of the line before one without ``>``."""
    closing = rf"\n {{0,3}}(?:>[ \t]?)+[ \t]*{re.escape(character)}{{{least},}}[ \t]*(?=\n|\Z)"
    return re.compile(rf"{closing}|(?=\n(?! {{0,3}}>))")
