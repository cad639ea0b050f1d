"""The order of what stands on a PDF page, where a program wrote it in another one: text boxes, headings, page footers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from rag_pipeline.parsing.pdf_segment import Segment

Row = list[Segment]

_MOST_BLOCKS = 500
"""More are a map or a drawing with labels, which has no order."""
_LEAST_SHARED = 0.1
_LEAST_PROSE = 3
_TOLERANCE = 0.3
_WIDEST_LEADING = 1.5


class _Block(NamedTuple):
    """Rows that follow each other closely. Its place is that of all of them; all zeros where it is not known."""

    rows: list[Row]
    left: float
    right: float
    bottom: float
    top: float


def rows_from_top(rows: Sequence[Row]) -> list[Row]:
    """Rows so that nothing comes before what stands right above it; otherwise they stay as they were written.

    So columns stay apart, since no part of one stands above another one. What was moved and stands above or below all
    prose of the page begins or ends it, such as a page number.
    """
    blocks = _blocks(rows)
    if not 1 < len(blocks) <= _MOST_BLOCKS:
        return list(rows)
    above = [[other for other, upper in enumerate(blocks) if _is_above(upper, block)] for block in blocks]
    if all(max(others, default=-1) < place for place, others in enumerate(above)):
        return list(rows)
    late = {place for place, others in enumerate(above) if max(others, default=-1) > place}
    early = {other for place, others in enumerate(above) for other in others if other > place}
    ends = [place for place in late if all(blocks[place].top <= block.bottom for block in _prose(blocks, place))]
    ends.sort(key=lambda place: -blocks[place].top)
    starts = [
        place
        for place in early
        if all(blocks[place].bottom >= block.top or other in early for other, block in enumerate(blocks) if other != place)
    ]
    starts.sort(key=lambda place: -blocks[place].top)
    wanted = [*starts, *(place for place in range(len(blocks)) if place not in starts and place not in ends), *ends]
    return [row for place in _with_those_above(wanted, above) for row in blocks[place].rows]


def _prose(blocks: Sequence[_Block], place: int) -> list[_Block]:
    """The other blocks, without those that may be notes at the edge of a page themselves."""
    return [
        block
        for other, block in enumerate(blocks)
        if other != place and block.top > block.bottom and len(block.rows) >= _LEAST_PROSE
    ]


def _with_those_above(wanted: Sequence[int], above: Sequence[Sequence[int]]) -> list[int]:
    """Blocks in an order, each right behind those above it that would come later."""
    ordered: dict[int, None] = {}
    pending = list(reversed(wanted))
    while pending:
        place = pending[-1]
        missing = [other for other in above[place] if other not in ordered] if place not in ordered else []
        if missing:
            pending += reversed(missing)
        else:
            ordered.setdefault(pending.pop())
    return list(ordered)


def _blocks(rows: Sequence[Row]) -> list[_Block]:
    runs: list[list[Row]] = [[row] for row in rows[:1]]
    for previous, row in pairwise(rows):
        if _continues(_bounds([previous]), _bounds([row])):
            runs[-1].append(row)
        else:
            runs.append([row])
    return [_bounds(run) for run in runs]


def _bounds(rows: list[Row]) -> _Block:
    segments = [segment for row in rows for segment in row]
    if not all(segment.height > 0 for segment in segments):
        return _Block(rows, 0, 0, 0, 0)
    return _Block(
        rows,
        min(segment.left for segment in segments),
        max(segment.right for segment in segments),
        min(segment.bottom for segment in segments),
        max(segment.top for segment in segments),
    )


def _continues(first: _Block, second: _Block) -> bool:
    """Whether a row stands on the line right below another one."""
    height = max(first.top - first.bottom, second.top - second.bottom)
    leading = first.bottom - second.bottom
    return _shares_columns(first, second) and 0 < leading < _WIDEST_LEADING * height + (second.top - second.bottom)


def _is_above(first: _Block, second: _Block) -> bool:
    if first.top <= first.bottom or second.top <= second.bottom:
        return False
    lowest = min(segment.height for block in (first, second) for row in block.rows for segment in row)
    return first.bottom >= second.top - _TOLERANCE * lowest and _shares_columns(first, second)


def _shares_columns(first: _Block, second: _Block) -> bool:
    shared = min(first.right, second.right) - max(first.left, second.left)
    return shared > _LEAST_SHARED * min(first.right - first.left, second.right - second.left)
