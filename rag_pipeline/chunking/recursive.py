"""Strategy ``recursive``: chunks of whole paragraphs where they fit, else of lines, sentences, words, characters.

A chunk never crosses a section. Within one it takes as many units as fit and ends at the strongest boundary in its
second half: a paragraph before a line, a line before a sentence, a sentence before a word. The next one repeats the
last sentences, lines or words, up to ``overlap`` tokens of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rag_pipeline.chunking.context import context_line
from rag_pipeline.chunking.long_units import split_long_unit, stripped
from rag_pipeline.chunking.units import LINE, PARAGRAPH, SENTENCE, WORD, Atoms, TokenSums, Units, units_of
from rag_pipeline.config import ChunkingConfig
from rag_pipeline.contracts import Chunk, Parsed, Section, Tokenizer

CHUNKER_VERSION = "1"
"""To be raised when the same document, configuration and tokenizer give other chunks."""

_Spans = list[tuple[int, int]]

_SLACK = 8
"""Spans that are estimated to be longer than a chunk by up to this many tokens are counted exactly."""
_FILL = 2
"""A chunk is filled to at least one part in two before a boundary is preferred to more text."""
_TAIL = 4
"""The last chunk of a section gets at least one part in four, where a boundary allows it."""


def chunk_document(parsed: Parsed, config: ChunkingConfig, tokenizer: Tokenizer) -> list[Chunk]:
    """Cut a document into chunks.

    Every character that is not white space lies in a chunk, and ``tokenizer.count`` finds at most ``config.size``
    tokens in each chunk's text, unless a single character has more. Chunks come in the order of their starts; none
    lies within the one before it. Neither begins nor ends with white space, except that the first line of code keeps
    its indentation. Atoms that fit into a chunk stay whole.
    """
    text = parsed.text
    sections = parsed.sections or (Section(start=0, end=len(text)),)
    if not text or text.isspace():
        return []
    sums = TokenSums(text, tokenizer)
    atoms = _atoms(text, parsed, config.size, sums, tokenizer)
    chunks: list[Chunk] = []
    for section, spans in zip(sections, _spans(text, sections, atoms, sums, config, tokenizer), strict=True):
        context = context_line(parsed.title, section.heading_path)
        chunks += [
            Chunk(
                start=start,
                end=end,
                text=text[start:end],
                context=context,
                heading_path=section.heading_path,
                page=section.page,
            )
            for start, end in spans
        ]
    return chunks


def _atoms(text: str, parsed: Parsed, size: int, sums: TokenSums, tokenizer: Tokenizer) -> Atoms:
    spans = [(atom.start, atom.end) for atom in parsed.atoms if atom.start < atom.end]
    starts = np.array([start for start, _ in spans], dtype=np.int64)
    ends = np.array([end for _, end in spans], dtype=np.int64)
    return Atoms(starts, ends, _fit(text, spans, size, sums, tokenizer))


def _fit(text: str, spans: _Spans, size: int, sums: TokenSums, tokenizer: Tokenizer) -> npt.NDArray[np.bool_]:
    """Whether each span has at most ``size`` tokens, exactly."""
    starts = np.array([start for start, _ in spans], dtype=np.int64)
    stops = np.array([stop for _, stop in spans], dtype=np.int64)
    near = np.flatnonzero(sums.through(stops) - sums.before(starts) <= size + _SLACK)
    fit = np.zeros(len(spans), dtype=np.bool_)
    fit[near] = tokenizer.count([text[slice(*spans[index])] for index in near.tolist()]) <= size
    return fit


def _spans(
    text: str,
    sections: Sequence[Section],
    atoms: Atoms,
    sums: TokenSums,
    config: ChunkingConfig,
    tokenizer: Tokenizer,
) -> list[_Spans]:
    """The spans of each section's chunks."""
    whole = [_whole(text, section, atoms) for section in sections]
    result: list[_Spans] = [[span] if span[0] < span[1] else [] for span in whole]
    long = np.flatnonzero(~_fit(text, whole, config.size, sums, tokenizer)).tolist()
    packers = {
        index: _Packer(text, units_of(text, *whole[index], atoms.within(*whole[index])), sums, config, tokenizer)
        for index in long
    }
    budgets = dict.fromkeys(long, config.size)
    while budgets:
        for index, budget in budgets.items():
            result[index] = packers[index].pack(budget)
        counts = tokenizer.count([text[slice(*span)] for index in budgets for span in result[index]])
        bounds = np.cumsum([0, *(len(result[index]) for index in budgets)])
        most = np.maximum.reduceat(counts, bounds[:-1]).tolist()
        # The estimate was too low for some chunk of these: again, with as much less room as it was too low.
        budgets = {
            index: max(budget - int(tokens) + config.size, 0)
            for (index, budget), tokens in zip(budgets.items(), most, strict=True)
            if tokens > config.size and budget > 0
        }
    return result


def _whole(text: str, section: Section, atoms: Atoms) -> tuple[int, int]:
    """A section as one span, without the white space around it but with the indentation of a first line of code."""
    start, end = stripped(text, section.start, section.end)
    line = max(text.rfind("\n", section.start, start) + 1, section.start)
    if line == start or (line == section.start and line > 0 and text[line - 1] != "\n"):
        return start, end
    indentation = text[line:start]
    code = len(indentation) >= 4 or "\t" in indentation or ((atoms.starts <= start) & (atoms.ends > start)).any()
    return (line if code else start), end


class _Packer:
    """Packs the units of one section into chunks."""

    def __init__(self, text: str, units: Units, sums: TokenSums, config: ChunkingConfig, tokenizer: Tokenizer) -> None:
        self._text = text
        self._size = config.size
        self._overlap = config.overlap
        self._tokenizer = tokenizer
        self._units = units
        self._before = sums.before(units.starts)
        self._through = sums.through(units.stops)
        self._last = len(units.starts) - 1
        self._boundaries = [np.flatnonzero(units.levels <= level) for level in (PARAGRAPH, LINE, SENTENCE, WORD)]

    def pack(self, budget: int) -> _Spans:
        """The spans of the section's chunks, each of at most ``budget`` tokens as far as can be estimated."""
        spans: _Spans = []
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
