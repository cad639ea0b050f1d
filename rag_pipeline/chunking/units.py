"""A section as units that are not torn: words, and whole atoms that fit into a chunk, with how strongly they part.

Everything is array arithmetic over code points; no unit is ever a Python object.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag_pipeline.chunking.characters import (
    CLOSER,
    LINE_END,
    LOWER,
    SPACE,
    TERMINAL,
    UNSPACED,
    WORD_CHARACTER,
    code_points,
    flags_of,
)
from rag_pipeline.contracts import Tokenizer

Offsets = npt.NDArray[np.int64]

PARAGRAPH, LINE, SENTENCE, WORD, PART_OF_LINE = range(5)
"""What begins with a unit; the smaller the number, the better a place to cut. The last is a word of a line that is no
prose: of an atom too large for a chunk, which is cut between lines."""

_MOST_CLOSERS = 3
_CODE_INDENTATION = 4  # columns, as CommonMark has it
_SHORTEST_WRAPPED_LINE = 40


@dataclass(frozen=True)
class Atoms:
    """Spans not to be torn, as offsets into the text, and whether each fits into one chunk."""

    starts: Offsets
    ends: Offsets
    fit: npt.NDArray[np.bool_]

    def within(self, start: int, end: int) -> Atoms:
        """Those that touch a span."""
        touching = (self.starts < end) & (self.ends > start)
        return Atoms(self.starts[touching], self.ends[touching], self.fit[touching])


class TokenSums:
    """How many tokens any span of a text has, from the tokens of its pieces."""

    def __init__(self, text: str, tokenizer: Tokenizer) -> None:
        self._ends: Offsets
        self._ends, tokens = tokenizer.pieces(text)
        self._starts: Offsets = np.append(0, self._ends)
        self._sums: Offsets = np.append(0, np.cumsum(tokens))

    def before(self, starts: Offsets) -> Offsets:
        """Tokens before each offset, for a span that begins there.

        One less where the offset lies between two pieces: a piece that is moved to the start of a text may take a token
        more there, as it does where the tokenizer puts a space before every text.
        """
        pieces = np.searchsorted(self._ends, starts, "right")
        between = self._starts[pieces] == starts
        return np.asarray(self._sums[pieces] - between)

    def through(self, stops: Offsets) -> Offsets:
        """Tokens up to each offset, for a span that ends there."""
        sums: Offsets = self._sums[np.searchsorted(self._ends, stops, "left") + 1]
        return sums


@dataclass(frozen=True)
class Units:
    """The units of a section in order. Unit ``i`` is ``text[starts[i]:stops[i]]`` and begins a ``levels[i]``."""

    starts: Offsets
    stops: Offsets
    levels: npt.NDArray[np.int8]


def units_of(text: str, start: int, end: int, atoms: Atoms) -> Units:
    """The units of ``text[start:end]``, in offsets of the whole text. What is between two units is white space.

    The first unit of a line of code starts with the line's indentation. ``start`` is the first character that is not
    white space, or the start of its line.
    """
    codes = code_points(text[start:end])
    flags = flags_of(codes)
    starts, stops = _words(flags)
    ends_line = _line_ends(codes, flags)
    levels = _levels(flags, ends_line, starts, stops)
    wrapped = _wrapped(codes, flags, ends_line, starts, stops)
    levels[wrapped & (levels == LINE) & ~_covered(starts + start, atoms)] = WORD
    indented = _with_indentation(codes, ends_line, starts, levels, atoms, start)
    starts, stops = starts + start, stops + start
    keep = np.ones(len(starts), dtype=np.bool_)
    keep[_inside(starts, stops, atoms, atoms.fit)] = False
    levels[_inside(starts, stops, atoms, ~atoms.fit) & (levels > LINE)] = PART_OF_LINE
    kept = np.flatnonzero(keep)
    last_of_unit = np.append(kept[1:], len(starts)) - 1
    return Units(indented[kept], stops[last_of_unit], levels[kept])


def _words(flags: npt.NDArray[np.uint8]) -> tuple[Offsets, Offsets]:
    """Where words begin and end: at white space, and behind the punctuation of scripts that set none."""
    text = (flags & SPACE) == 0
    starts = np.flatnonzero(text & ~np.append(False, text[:-1]))
    stops = np.flatnonzero(text & ~np.append(text[1:], False)) + 1
    unspaced = (flags & UNSPACED) != 0
    if not unspaced.any():
        return starts, stops
    tail = unspaced | ((flags & CLOSER) != 0)
    breaks = np.flatnonzero(text[1:] & tail[:-1] & ~tail[1:] & ((flags[1:] & TERMINAL) == 0)) + 1
    breaks = breaks[unspaced[_before_closers(flags, breaks - 1)]]
    return np.sort(np.append(starts, breaks)), np.sort(np.append(stops, breaks))


def _before_closers(flags: npt.NDArray[np.uint8], positions: Offsets) -> Offsets:
    """From the last character of a unit back over closing quotes and brackets."""
    for _ in range(_MOST_CLOSERS):
        positions = np.maximum(positions - ((flags[positions] & (CLOSER | UNSPACED)) == CLOSER), 0)
    return positions


def _line_ends(codes: npt.NDArray[np.uint32], flags: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    ends: npt.NDArray[np.bool_] = (flags & LINE_END) != 0
    ends[:-1] &= (codes[:-1] != ord("\r")) | (codes[1:] != ord("\n"))
    return ends


def _levels(
    flags: npt.NDArray[np.uint8], ends_line: npt.NDArray[np.bool_], starts: Offsets, stops: Offsets
) -> npt.NDArray[np.int8]:
    levels = np.full(len(starts), WORD, dtype=np.int8)
    if not len(starts):
        return levels
    lines = np.append(np.int32(0), np.cumsum(ends_line, dtype=np.int32))
    line_ends = lines[starts[1:]] - lines[stops[:-1]]
    levels[0] = PARAGRAPH
    levels[1:][line_ends == 1] = LINE
    levels[1:][line_ends > 1] = PARAGRAPH
    ended = (flags[_before_closers(flags, stops[:-1] - 1)] & TERMINAL) != 0
    sentence = ended & ((flags[starts[1:]] & LOWER) == 0) & (levels[1:] == WORD)
    levels[1:][sentence] = SENTENCE
    return levels


def _wrapped(
    codes: npt.NDArray[np.uint32],
    flags: npt.NDArray[np.uint8],
    ends_line: npt.NDArray[np.bool_],
    starts: Offsets,
    stops: Offsets,
) -> npt.NDArray[np.bool_]:
    """Whether the line before each unit seems to end where it does only because it was full.

    It is long, it ends with a word or a comma, and a small letter follows without indentation.
    """
    line_starts = np.append(0, np.flatnonzero(ends_line) + 1)
    wrapped: npt.NDArray[np.bool_] = np.isin(starts, line_starts) & ((flags[starts] & LOWER) != 0)
    wrapped[:1] = False
    next_units = np.flatnonzero(wrapped)
    last = stops[next_units - 1] - 1
    begin = line_starts[np.searchsorted(line_starts, last, "right") - 1]
    open_ended = ((flags[last] & WORD_CHARACTER) != 0) | (codes[last] == ord(","))
    wrapped[next_units] = open_ended & (last - begin >= _SHORTEST_WRAPPED_LINE)
    return wrapped


def _with_indentation(
    codes: npt.NDArray[np.uint32],
    ends_line: npt.NDArray[np.bool_],
    starts: Offsets,
    levels: npt.NDArray[np.int8],
    atoms: Atoms,
    offset: int,
) -> Offsets:
    """The starts of units in offsets of the whole text; of a line of code, the start of its indentation.

    A line is code when it lies in an atom or is indented by a tab or four columns.
    """
    firsts = np.flatnonzero(levels <= LINE)
    line_starts = np.append(0, np.flatnonzero(ends_line) + 1)
    begin = line_starts[np.searchsorted(line_starts, starts[firsts], "right") - 1]
    tabs = np.append(np.int32(0), np.cumsum(codes == ord("\t"), dtype=np.int32))
    deep = (starts[firsts] - begin >= _CODE_INDENTATION) | (tabs[starts[firsts]] > tabs[begin])
    code = deep | _covered(starts[firsts] + offset, atoms)
    result = starts + offset
    result[firsts[code]] = begin[code] + offset
    return result


def _covered(positions: Offsets, atoms: Atoms) -> npt.NDArray[np.bool_]:
    """Whether each position, in ascending order, lies in an atom."""
    return _in_ranges(
        np.searchsorted(positions, atoms.starts, "left"), np.searchsorted(positions, atoms.ends, "left"), len(positions)
    )


def _inside(starts: Offsets, stops: Offsets, atoms: Atoms, which: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether a cut before each unit would tear one of these atoms."""
    begins, ends = atoms.starts[which], atoms.ends[which]
    if not len(begins) or not len(starts):
        return np.zeros(len(starts), dtype=np.bool_)
    # An atom begins with its first character that is not white space: a cut before that one tears nothing.
    first = np.minimum(np.searchsorted(stops, begins, "right"), len(starts) - 1)
    begins = np.maximum(begins, starts[first])
    return _in_ranges(np.searchsorted(starts, begins, "right"), np.searchsorted(starts, ends, "left"), len(starts))


def _in_ranges(lows: Offsets, highs: Offsets, length: int) -> npt.NDArray[np.bool_]:
    """For every index below ``length``, whether it lies in one of the ranges ``[low, high)``."""
    depth = np.zeros(length + 1, dtype=np.int64)
    np.add.at(depth, lows, 1)
    np.add.at(depth, np.maximum(lows, highs), -1)
    return np.cumsum(depth)[:-1] > 0
