"""Spans of a document as chunks that fit: whole, or packed from units that are not torn.

Whatever decides where a chunk should end hands its spans to :class:`Packing`, which sees that none is too long.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rag_pipeline.chunking.long_units import split_long_unit, stripped
from rag_pipeline.chunking.units import LINE, PARAGRAPH, SENTENCE, WORD, Atoms, TokenSums, Units, units_of
from rag_pipeline.contracts import Parsed, Tokenizer

Span = tuple[int, int]
Spans = list[Span]

_SLACK = 8
"""Spans that are estimated to be longer than a chunk by up to this many tokens are counted exactly."""
_FILL = 2
"""A chunk is filled to at least one part in two before a boundary is preferred to more text."""
_TAIL = 4
"""The last chunk of a region gets at least one part in four, where a boundary allows it."""


class Packing:
    """Cuts regions of one document into chunks of at most ``size`` tokens.

    Args:
        size: the most tokens of a chunk.
        overlap: the most tokens that a chunk repeats from the end of the one before it in the same region.
    """

    def __init__(self, parsed: Parsed, sums: TokenSums, size: int, overlap: int, tokenizer: Tokenizer) -> None:
        self.text = parsed.text
        self.size = size
        self.sums = sums
        self._overlap = overlap
        self._tokenizer = tokenizer
        atoms = [(atom.start, atom.end) for atom in parsed.atoms if atom.start < atom.end]
        starts = np.array([start for start, _ in atoms], dtype=np.int64)
        ends = np.array([end for _, end in atoms], dtype=np.int64)
        self._atoms = Atoms(starts, ends, self.fit(atoms))

    def fit(self, spans: Sequence[Span]) -> npt.NDArray[np.bool_]:
        """Whether each span has at most ``size`` tokens, exactly."""
        starts = np.array([start for start, _ in spans], dtype=np.int64)
        stops = np.array([stop for _, stop in spans], dtype=np.int64)
        near = np.flatnonzero(self.sums.through(stops) - self.sums.before(starts) <= self.size + _SLACK)
        fit = np.zeros(len(spans), dtype=np.bool_)
        fit[near] = self._tokenizer.count([self.text[slice(*spans[index])] for index in near.tolist()]) <= self.size
        return fit

    def units(self, span: Span) -> Units:
        """The units of a span that `visible` gave."""
        return units_of(self.text, *span, self._atoms.within(*span))

    def visible(self, start: int, end: int) -> Span:
        """A region without the white space around it but with the indentation of a first line of code."""
        text = self.text
        region = start
        start, end = stripped(text, start, end)
        line = max(text.rfind("\n", region, start) + 1, region)
        if line == start or (line == region and line > 0 and text[line - 1] != "\n"):
            return start, end
        indentation = text[line:start]
        atoms = self._atoms
        code = len(indentation) >= 4 or "\t" in indentation or ((atoms.starts <= start) & (atoms.ends > start)).any()
        return (line if code else start), end

    def chunks(self, regions: Sequence[Span]) -> list[Spans]:
        """The spans of each region's chunks. Regions are spans that `visible` gave; an empty one has no chunk."""
        result: list[Spans] = [[span] if span[0] < span[1] else [] for span in regions]
        long = np.flatnonzero(~self.fit(regions)).tolist()
        packers = {
            index: _Packer(self.text, self.units(regions[index]), self.sums, self.size, self._overlap, self._tokenizer)
            for index in long
        }
        budgets = dict.fromkeys(long, self.size)
        while budgets:
            for index, budget in budgets.items():
                result[index] = packers[index].pack(budget)
            counts = self._tokenizer.count([self.text[slice(*span)] for index in budgets for span in result[index]])
            bounds = np.cumsum([0, *(len(result[index]) for index in budgets)])
            most = np.maximum.reduceat(counts, bounds[:-1]).tolist()
            # The estimate was too low for some chunk of these: again, with as much less room as it was too low.
            budgets = {
                index: max(budget - int(tokens) + self.size, 0)
                for (index, budget), tokens in zip(budgets.items(), most, strict=True)
                if tokens > self.size and budget > 0
            }
        return result


class _Packer:
    """Packs the units of one region into chunks."""

    def __init__(self, text: str, units: Units, sums: TokenSums, size: int, overlap: int, tokenizer: Tokenizer) -> None:
        self._text = text
        self._size = size
        self._overlap = overlap
        self._tokenizer = tokenizer
        self._units = units
        self._before = sums.before(units.starts)
        self._through = sums.through(units.stops)
        self._last = len(units.starts) - 1
        self._boundaries = [np.flatnonzero(units.levels <= level) for level in (PARAGRAPH, LINE, SENTENCE, WORD)]

    def pack(self, budget: int) -> Spans:
        """The spans of the region's chunks, each of at most ``budget`` tokens as far as can be estimated."""
        spans: Spans = []
        first, covered = 0, -1
        while covered < self._last:
            last = self._last_within(int(self._before[first]) + budget)
            if last > covered:
                covered = self._end(first, covered + 1, last, budget)
                spans.append((int(self._units.starts[first]), int(self._units.stops[covered])))
                first = self._repeat_from(first, covered)
            elif first <= covered:
                first = covered + 1
            else:
                start, stop = int(self._units.starts[first]), int(self._units.stops[first])
                spans += split_long_unit(self._text, start, stop, self._size, self._tokenizer)
                covered, first = first, first + 1
        return spans

    def _last_within(self, tokens: int) -> int:
        """The last unit that ends within so many tokens from the start of the text."""
        return int(self._through.searchsorted(tokens, "right")) - 1

    def _end(self, first: int, earliest: int, last: int, budget: int) -> int:
        """The unit with which a chunk ends that begins with ``first`` and has room up to ``last``."""
        if last == self._last:
            return last
        rest = int(self._through[self._last])
        tail = budget // _TAIL
        if rest - int(self._before[first]) <= budget + tail:
            last = max(min(last, self._last_within(rest - tail)), earliest)
        filled = int(self._through.searchsorted(int(self._before[first]) + budget // _FILL, "left"))
        earliest = max(earliest, filled)
        for boundaries in self._boundaries:
            end = int(boundaries[int(boundaries.searchsorted(last + 1, "right")) - 1]) - 1
            if end >= earliest:
                return end
        return last

    def _repeat_from(self, first: int, covered: int) -> int:
        """The unit with which the next chunk begins, after one from ``first`` to ``covered``."""
        earliest = int(self._before.searchsorted(int(self._through[covered]) - self._overlap, "left"))
        earliest = max(earliest, first + 1)
        if earliest > covered:
            return covered + 1
        for boundaries in self._boundaries[SENTENCE:]:
            place = int(boundaries.searchsorted(earliest, "left"))
            if place < len(boundaries) and boundaries[place] <= covered:
                return int(boundaries[place])
        return covered + 1
