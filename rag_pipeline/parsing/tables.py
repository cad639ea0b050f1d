"""Tables as lines of text that still tell what their cells are when a chunk holds some rows of them only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

_LONGEST_PART = 1000
"""Characters of one part of a table: well below a chunk of the default size, in scripts with long tokens, too."""
_LONGEST_HEADER = 400
_MOST_COLUMNS = 1_000
_MOST_CAPTIONS = 12
_YEAR = re.compile(r"1[89]\d\d|2[01]\d\d")
_MARKS_OF_NUMBERS = str.maketrans("", "", " .,:;%+-/€$£¥()'")


def table_parts(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table, a line a row and ``|`` between cells.

    A short table is one part. A long one comes in parts of whole rows, each of them under the first row if that can be
    its header. Where a row is long, it is written as lines of header and value.
    """
    filled = [cells for cells in rows if any(cells)]
    if not filled:
        return
    lines = [_line(cells) for cells in filled]
    if sum(map(len, lines)) + len(lines) <= _LONGEST_PART:
        yield "\n".join(lines)
        return
    header = filled[0] if len(filled) > 1 and may_be_header(filled[0]) else None
    if header is None or len(lines[0]) > _LONGEST_HEADER:
        yield from _grouped([], lines) if header is None else _records(header, filled[1:])
        return
    short: list[str] = []
    for cells, line in zip(filled[1:], lines[1:], strict=True):
        if len(lines[0]) + len(line) > _LONGEST_PART:
            yield from _grouped(lines[:1], short)
            yield from _records(header, [cells])
            short = []
        else:
            short.append(line)
    yield from _grouped(lines[:1], short)


class Cell(NamedTuple):
    """A cell that may stand in several columns and rows."""

    text: str
    columns: int = 1
    rows: int = 1


def rows_in_line(rows: Iterable[Iterable[Cell]]) -> Iterator[list[str]]:
    """Rows whose columns are in line: a tall cell is repeated in each of its rows, a wide one has empty ones behind it."""
    tall: dict[int, tuple[int, str]] = {}
    for row in rows:
        cells: list[str] = []
        for cell in row:
            while (column := len(cells)) in tall:
                cells.append(_repeated(tall, column))
            if cell.rows > 1:
                tall[column] = (cell.rows - 1, cell.text)
            cells += [cell.text, *[""] * (min(cell.columns, _MOST_COLUMNS) - 1)]
        while len(cells) in tall:
            cells.append(_repeated(tall, len(cells)))
        yield cells


def _repeated(tall: dict[int, tuple[int, str]], column: int) -> str:
    left, text = tall.pop(column)
    if left > 1:
        tall[column] = (left - 1, text)
    return text


def without_captions(rows: Sequence[Sequence[str]]) -> tuple[list[str], list[Sequence[str]]]:
    """The lines that stand above a table in its first cell, and the table below them from its header on."""
    table = [cells for cells in rows if any(cells)]
    captions: list[str] = []
    first = next((place for place, cells in enumerate(table[:_MOST_CAPTIONS]) if sum(map(bool, cells)) > 1), 0)
    for cells in table[:first]:
        captions.append(next(filter(None, cells)))
    return captions, table[first:]


def may_be_header(cells: Sequence[str]) -> bool:
    """Whether a row names columns: more than one, and none of the names is a number but for years."""
    names = [cell for cell in cells if cell]
    return len(names) > 1 and not any(
        name.translate(_MARKS_OF_NUMBERS).isdigit() and not _YEAR.fullmatch(name.strip()) for name in names
    )


def _line(cells: Sequence[str]) -> str:
    line = " | ".join(" ".join(cell.split()) for cell in cells).rstrip(" |")
    return f"|{line}" if line.startswith(" |") else line


def _grouped(header: list[str], lines: Sequence[str]) -> Iterator[str]:
    part: list[str] = []
    length = room = sum(map(len, header))
    for line in lines:
        if part and length + len(line) > _LONGEST_PART:
            yield "\n".join([*header, *part])
            part, length = [], room
        part.append(line)
        length += len(line) + 1
    if part:
        yield "\n".join([*header, *part])


def _records(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for cells in rows:
        names = [*header, *[""] * (len(cells) - len(header))]
        pairs = [
            f"{name}: {' '.join(cell.split())}" if name else " ".join(cell.split())
            for name, cell in zip((" ".join(name.split()) for name in names), cells, strict=False)
            if cell.strip()
        ]
        yield "\n".join(pairs)
