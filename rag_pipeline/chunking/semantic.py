"""Strategy ``semantic``: where a text turns to another subject, found by comparing its sentences.

At each gap between two sentences of a section, the sentences before it are compared with those after it, as Hearst does
(TextTiling, Computational Linguistics 1997; blocks of six): the shift is one less the cosine of the two means of sentence
vectors. A shift is a boundary when it is among the greatest of the document, by percentile, as in Kamradt's "5 Levels of
Text Splitting" (2024), whose 95th is the default. Boundaries are taken greatest first, and only where both sides keep a
quarter of a chunk. What is longer than a chunk is cut at its greatest shift all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_pipeline.chunking.packing import Packing, Span, Spans
from rag_pipeline.chunking.units import SENTENCE, Offsets
from rag_pipeline.contracts import SentenceEmbedder

Shifts = npt.NDArray[np.float64]

_BLOCK = 6
"""Sentences on each side of a gap."""
_SMALLEST = 4
"""No boundary leaves less than one part in four of a chunk on either side."""
_DECIMALS = 6
"""Shifts are compared to this many decimals: the rest is the noise of a machine's floating point."""
_GAPS_AT_A_TIME = 4096


class _Sentences(NamedTuple):
    """The sentences of all regions in order; region ``i`` has those from ``bounds[i]`` up to ``bounds[i + 1]``."""

    starts: Offsets
    stops: Offsets
    bounds: Offsets


def subjects(
    packing: Packing, regions: Sequence[Span], percentile: float, embedder: SentenceEmbedder
) -> Iterator[list[Span]]:
    """Each region cut at its shifts. Parts may be longer than a chunk only where no boundary between sentences is left.

    Args:
        regions: spans that `Packing.visible` gave.
        percentile: of the document's shifts, above which one is a boundary; 100 cuts only what is longer than a chunk.
    """
    sentences = _sentences(packing, regions)
    shifts = _shifts(packing.text, sentences, embedder)
    inside = shifts[np.isfinite(shifts)]
    least = float(np.percentile(inside, percentile)) if len(inside) else np.inf
    for region, first, end in zip(regions, sentences.bounds[:-1].tolist(), sentences.bounds[1:].tolist(), strict=True):
        if first == end:
            yield [region]
            continue
        yield _parts(packing, sentences.starts[first:end], sentences.stops[first:end], shifts[first : end - 1], least)


def _sentences(packing: Packing, regions: Sequence[Span]) -> _Sentences:
    starts: list[Offsets] = []
    stops: list[Offsets] = []
    for region in regions:
        if region[0] < region[1]:
            units = packing.units(region)
            firsts = np.flatnonzero(units.levels <= SENTENCE)
            starts.append(units.starts[firsts])
            stops.append(units.stops[np.append(firsts[1:], len(units.starts)) - 1])
        else:
            starts.append(np.zeros(0, dtype=np.int64))
            stops.append(starts[-1])
    bounds = np.cumsum([0, *map(len, starts)])
    return _Sentences(np.concatenate(starts), np.concatenate(stops), bounds)


def _shifts(text: str, sentences: _Sentences, embedder: SentenceEmbedder) -> Shifts:
    """How much the subject shifts behind each sentence, 0 to 2; infinite behind the last one of a region."""
    count = len(sentences.starts)
    shifts = np.full(count, np.inf)
    region = np.searchsorted(sentences.bounds, np.arange(count), "right") - 1
    first, end = sentences.bounds[region], sentences.bounds[region + 1]
    for low in range(0, count, _GAPS_AT_A_TIME):
        gaps = np.arange(low, min(low + _GAPS_AT_A_TIME, count))
        gaps = gaps[gaps + 1 < end[gaps]]
        if not len(gaps):
            continue
        begin = max(int(gaps[0]) + 1 - _BLOCK, 0)
        stop = min(int(gaps[-1]) + 1 + _BLOCK, count)
        spans = zip(sentences.starts[begin:stop].tolist(), sentences.stops[begin:stop].tolist(), strict=True)
        vectors = embedder.embed_documents([text[one:other] for one, other in spans]).astype(np.float64)
        sums = np.concatenate([np.zeros((1, vectors.shape[1])), np.cumsum(vectors, axis=0)])
        middle = sums[gaps + 1 - begin]
        before = middle - sums[np.maximum(gaps + 1 - _BLOCK, first[gaps]) - begin]
        after = sums[np.minimum(gaps + 1 + _BLOCK, end[gaps]) - begin] - middle
        lengths = np.sqrt(np.einsum("ij,ij->i", before, before) * np.einsum("ij,ij->i", after, after))
        # Sentences without a token are like nothing; they part from their neighbours like any other subject.
        cosine = np.einsum("ij,ij->i", before, after) / np.where(lengths > 0, lengths, 1.0)
        shifts[gaps] = np.round(1.0 - cosine, _DECIMALS)
    return shifts


def _parts(packing: Packing, starts: Offsets, stops: Offsets, shifts: Shifts, least: float) -> list[Span]:
    """The sentences of one region as spans, found by dividing it again and again at its greatest shift."""
    before, through = packing.sums.before(starts), packing.sums.through(stops)
    smallest = packing.size // _SMALLEST
    done: Spans = []
    pending = [(0, len(starts) - 1)]
    while pending:
        first, last = pending.pop()
        span = (int(starts[first]), int(stops[last]))
        low = max(int(through.searchsorted(before[first] + smallest, "left")), first)
        high = min(int(before.searchsorted(through[last] - smallest, "right")) - 1, last)
        if low < high:
            gap = low + int(shifts[low:high].argmax())
            if shifts[gap] > least or not packing.fit([span])[0]:
                pending += [(gap + 1, last), (first, gap)]
                continue
        done.append(span)
    return done
