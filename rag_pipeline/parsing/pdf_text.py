"""The text of a PDF page: its lines in a reader's order, its words whole, and whether it is text at all."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from rag_pipeline.parsing.bidi import share_of_right_to_left
from rag_pipeline.parsing.pdf_order import rows_from_top
from rag_pipeline.parsing.pdf_segment import Segment, is_gap, is_wide_gap
from rag_pipeline.parsing.typography import plain_letters

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_WORDS = re.compile(r"[^\W\d_]{3,}|\d+")
_LEAST_WORDS = 0.45
"""Share of a page's characters that stand in words. A scan's noise had .24, no good one of 32 PDFs less than .70."""
_LEAST_JUDGED = 40
"""Characters; fewer are a stamp or a list of codes."""
_MOST_UNKNOWN = 0.3
_MOSTLY_RIGHT_TO_LEFT = 0.3
_SAME_LINE = 0.5
_WIDEST_SPACE = 4
_NEAR = 2
_SLACK = 0.15
"""In heights of a line, how far lines end from a margin that they share."""
_LEAST_SPACES = 3
_NUMBER = re.compile(r"\d")
_LIST_LABEL = re.compile(
    r"[\u2022\u2023\u2043\u25a0-\u25ff\u2713-\u2717\u27a2\u2756\uf020-\uf0ff\u2013\u00b7*-]|\(?(?:\d{1,3}|[A-Za-z]|[ivx]{1,5})[.)]"
)
"""What begins an item of a list; symbols of Windows' fonts have places in the private use area."""
_PROSE_ROWS = 4
_PROSE_CELL = 22


def page_text(lines: Sequence[Sequence[Segment]]) -> str:
    """The lines of a page in a reader's order, what stands side by side as one row of a table or as columns of prose."""
    rows = _without_chance_gaps(rows_from_top(list(_rows(lines))))
    written: list[str] = []
    position = 0
    while position < len(rows):
        end = _end_of_columns(rows, position)
        if end:
            for column in zip(*rows[position:end], strict=True):
                written += [segment.text for segment in column]
            position = end
        else:
            written.append(" | ".join(segment.text for segment in rows[position]))
            position += 1
    return clean_page("\n".join(written))


def clean_page(text: str) -> str:
    """A page's text without marks that no reader sees."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return plain_letters(_CONTROLS.sub("", text)).strip()


def _rows(lines: Sequence[Sequence[Segment]]) -> Iterator[list[Segment]]:
    """Lines that follow each other on one base line as one row, in the direction in which its script is read."""
    row: list[Segment] = []
    for line in lines:
        if row and _is_beside(row[-1], line[0]):
            row.extend(line)
            continue
        if row:
            yield _in_reading_order(row)
        row = list(line)
    if row:
        yield _in_reading_order(row)


def _is_beside(first: Segment, second: Segment) -> bool:
    lowest = min(first.height, second.height)
    overlap = min(first.top, second.top) - max(first.bottom, second.bottom)
    gap = max(second.left - first.right, first.left - second.right)
    return lowest > 0 and overlap > _SAME_LINE * lowest and gap > -_SAME_LINE * lowest


def _in_reading_order(row: list[Segment]) -> list[Segment]:
    if len(row) == 1 or not all(segment.height > 0 for segment in row):
        return row
    ordered = sorted(row, key=lambda segment: segment.left)
    if share_of_right_to_left(" ".join(segment.text for segment in row)) > _MOSTLY_RIGHT_TO_LEFT:
        ordered.reverse()
    parts = [ordered[0]]
    for segment in ordered[1:]:
        if is_gap(parts[-1], segment):
            parts.append(segment)
        else:
            parts[-1] = parts[-1].joined(segment)
    return parts


def _without_chance_gaps(rows: Sequence[list[Segment]]) -> list[list[Segment]]:
    """Rows parted only where rows near by are parted at the same place, and not where a line was spread to its margins."""
    gaps = [_gaps(row) for row in rows]
    parted: list[list[Segment]] = []
    for place, row in enumerate(rows):
        near = [other for other in range(max(0, place - _NEAR), min(len(rows), place + _NEAR + 1)) if other != place]
        seen = [gap for other in near for gap in gaps[other]]
        spread = _is_spread(row, gaps[place]) or _is_justified(row, [rows[other] for other in near])
        parts = [row[0]]
        for segment, gap in zip(row[1:], gaps[place], strict=True):
            is_label = len(parts) == 1 and _LIST_LABEL.fullmatch(parts[0].text) is not None
            agreeing = [other for other in seen if gap.shared(other) > segment.height / 2]
            if spread or is_label or not _is_between_cells(gap, len(row), agreeing):
                parts[-1] = parts[-1].joined(segment)
            else:
                parts.append(segment)
        parted.append(parts)
    return parted


class _Gap(NamedTuple):
    start: float
    end: float
    is_wide: bool

    def shared(self, other: _Gap) -> float:
        return min(self.end, other.end) - max(self.start, other.start)


def _gaps(row: Sequence[Segment]) -> list[_Gap]:
    return [
        _Gap(min(first.right, second.right), max(first.left, second.left), is_wide_gap(first, second))
        for first, second in pairwise(row)
    ]


def _is_between_cells(gap: _Gap, parts: int, others: Sequence[_Gap]) -> bool:
    """
    Args:
        parts: how many there are of the row.
        others: gaps of rows near by at the same place. Justified lines may have a narrow one there by chance, seldom two.
    """
    return len(others) > 1 or any(other.is_wide and (gap.is_wide or parts > 2) for other in others)


def _is_spread(row: Sequence[Segment], gaps: Sequence[_Gap]) -> bool:
    """Whether all words of a line stand equally far apart, and not very far: it was justified."""
    widths = [gap.end - gap.start for gap in gaps]
    words = sum(segment.text.count(" ") + 1 for segment in row)
    if len(widths) < 2 or words != len(row) or max(widths) > _WIDEST_SPACE * row[0].height:
        return False
    return max(widths) - min(widths) < 0.2 * max(widths)


def _is_justified(row: Sequence[Segment], around: Sequence[Sequence[Segment]]) -> bool:
    """Whether a line of few words was spread to margins that a line of prose near by fills without wide gaps.

    Cells of a table begin below each other, or are numbers.
    """
    left, right = row[0].left, row[-1].right
    slack = _SLACK * row[0].height
    prose = any(
        (len(other) == 1 or _is_spread(other, _gaps(other)))
        and sum(segment.text.count(" ") + 1 for segment in other) > _LEAST_SPACES
        and abs(other[0].left - left) < slack
        and abs(other[-1].right - right) < slack
        for other in around
    )
    if len(row) < 2 or not prose or any(_NUMBER.search(segment.text) for segment in row[1:]):
        return False
    beginnings = [segment.left for other in around for segment in other[1:]]
    return not any(abs(segment.left - beginning) < slack for segment in row[1:] for beginning in beginnings)


def _end_of_columns(rows: Sequence[Sequence[Segment]], start: int) -> int:
    """Where columns of prose end that begin here and were written line by line across them; 0 where there are none.

    Cells of a table are short. Lines of prose are long, begin where the line above begins, and most fill their column.
    """
    width = len(rows[start])
    if width < 2:
        return 0
    end = start
    while end < len(rows) and len(rows[end]) == width and _aligned(rows[start], rows[end]):
        end += 1
    if end - start < _PROSE_ROWS:
        return 0
    for column in zip(*rows[start:end], strict=True):
        if sum(len(segment.text) for segment in column) < _PROSE_CELL * len(column):
            return 0
        widest = max(segment.right - segment.left for segment in column)
        if 3 * sum(segment.right - segment.left > 0.7 * widest for segment in column) < 2 * len(column):
            return 0
    return end


def _aligned(first: Sequence[Segment], second: Sequence[Segment]) -> bool:
    return all(abs(one.left - other.left) < 1.5 * max(one.height, 1) for one, other in zip(first, second, strict=True))


def is_unknown(text: str) -> bool:
    """Whether fonts do not say which characters a good part of a page shows."""
    visible = [character for character in text if not character.isspace()]
    unknown = sum(character == "\ufffd" or unicodedata.category(character) in ("Co", "Cn") for character in visible)
    return len(visible) >= _LEAST_JUDGED and unknown > _MOST_UNKNOWN * len(visible)


def is_noise(text: str) -> bool:
    """Whether the text layer of a scan has hardly a word among its signs. Of other pages it tells nothing: formulas."""
    visible = [character for character in text if not character.isspace()]
    if len(visible) < _LEAST_JUDGED:
        return False
    # Beyond Greek and Cyrillic words may be of one letter, and marks are parts of them.
    in_words = sum(len(word) for word in _WORDS.findall(re.sub("[^\x00-\u058f]", " ", text))) + sum(
        ord(character) >= 0x0590 and unicodedata.category(character)[0] in "LM" for character in visible
    )
    return in_words < _LEAST_WORDS * len(visible)


def letters_in(text: str) -> int:
    return sum(map(str.isalnum, text))
