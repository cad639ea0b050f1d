"""Tables as lines of text that still tell what their cells are when a chunk holds some rows of them only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_LONGEST_PART = 1000
"""Characters of one part of a table: well below a chunk of the default size, in scripts with long tokens, too."""
_LONGEST_HEADER = 400
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
