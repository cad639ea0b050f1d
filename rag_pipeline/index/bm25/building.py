"""Chunks -> segments, and segments -> fewer segments."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_pipeline.contracts import BM25Segment
from rag_pipeline.errors import StoreError
from rag_pipeline.index.analyzer import Analyzer
from rag_pipeline.index.bm25.files import REMEDY
from rag_pipeline.index.bm25.segments import (
    Postings,
    SegmentReader,
    concatenated_strings,
    describe,
    flat_strings,
    write_segment_file,
)
from rag_pipeline.index.ranges import Integers, concatenated_ranges
from rag_pipeline.storage import StorePath

MAX_CHUNKS = 2**18
"""Chunks of one segment at most: bounds what merging holds in memory."""
MAX_LENGTH = 2**24
"""Terms of all chunks of one segment at most when it is written: bounds what analysing holds in memory."""

MAX_DELETED_FRACTION = 0.3

_SMALLEST_TIER = 1000
_TIER_FACTOR = 4
_CHUNKS_PER_STEP = 2**12
_POSTINGS_PER_STEP = 2**21


def write_segments(folder: StorePath, batches: Iterable[tuple[pa.Array, pa.Array]], analyzer: Analyzer) -> list[BM25Segment]:
    """Analyse chunks and write them as segments: none without chunks, one for most corpora, more for large ones.

    Equal chunks in equal order give equal files, however they are cut into batches.

    Args:
        folder: made when it is not there.
        batches: chunk ids and the texts to index, equally long arrays of strings.
        analyzer: gives the terms.

    Raises:
        StoreError: a chunk id occurs twice.
    """
    segments = []
    builder = _Builder()
    for chunk_ids, texts in _small(batches):
        terms = analyzer.analyze(texts)
        taken = builder.add(chunk_ids, terms)
        while taken < len(chunk_ids):
            segments.append(builder.write(folder, analyzer.language))
            builder = _Builder()
            taken += builder.add(chunk_ids[taken:], terms[taken:])
    if builder.chunks:
        segments.append(builder.write(folder, analyzer.language))
    return segments


def plan_merges(segments: Sequence[BM25Segment]) -> list[list[BM25Segment]]:
    """Which segments to merge, so that their number grows with the logarithm of the chunks, up to MAX_CHUNKS in one.

    Segments fall into tiers by their live chunks, each tier four times as large as the one below. Four segments of one
    tier become one. A segment of which more than 30 % is deleted is written anew, alone.

    Returns:
        Groups for `merge_segments`, no segment in two of them. What they become may itself be merged: plan again.
    """
    tiers: dict[int, list[BM25Segment]] = {}
    for segment in segments:
        live = segment.chunks - segment.deleted
        if live <= MAX_CHUNKS // _TIER_FACTOR:
            tier = max(0, math.ceil(math.log(max(live, 1) / _SMALLEST_TIER, _TIER_FACTOR)))
            tiers.setdefault(tier, []).append(segment)
    groups = [
        tier[start : start + _TIER_FACTOR]
        for tier in tiers.values()
        for start in range(0, len(tier) - _TIER_FACTOR + 1, _TIER_FACTOR)
    ]
    grouped = {segment.file for group in groups for segment in group}
    return groups + [
        [segment]
        for segment in segments
        if segment.file not in grouped and segment.deleted > MAX_DELETED_FRACTION * segment.chunks
    ]


def compact(folder: StorePath, segments: Sequence[BM25Segment]) -> list[BM25Segment]:
    """Merge as `plan_merges` says until it has no more to say. Returns the segments in use afterwards."""
    current = list(segments)
    while groups := plan_merges(current):
        merged = {segment.file for group in groups for segment in group}
        current = [segment for segment in current if segment.file not in merged]
        current += [segment for group in groups if (segment := merge_segments(folder, group)) is not None]
    return current


def merge_segments(folder: StorePath, segments: Sequence[BM25Segment]) -> BM25Segment | None:
    """Write one segment that holds the live chunks of several, in their order, without analysing them again.

    The file equals the one that `write_segments` makes of the same chunks.

    Returns:
        The new segment, or None when no chunk is left. The old files stay.

    Raises:
        StoreError: the segments were not made by the same analyzer, or hold a chunk twice.
    """
    readers = [SegmentReader(folder, segment) for segment in segments]
    if len({json.dumps(reader.description, sort_keys=True) for reader in readers}) > 1:
        raise StoreError(f"{folder}: its BM25 segments come from different analyzers; {REMEDY}")
    chunk_ids = concatenated_strings([reader.live_chunk_ids for reader in readers])
    if not len(chunk_ids):
        return None
    frequencies = [reader.live_document_frequencies for reader in readers]
    used = [reader.terms.filter(pa.array(df > 0)) for reader, df in zip(readers, frequencies, strict=True)]
    terms = pc.unique(concatenated_strings(used))
    terms = terms.take(pc.array_sort_indices(terms))
    totals = np.zeros(len(terms), np.int64)
    ranks = []
    for reader, df in zip(readers, frequencies, strict=True):
        rank = pc.fill_null(pc.index_in(reader.terms, value_set=terms), -1).to_numpy().astype(np.int64)
        totals[rank[df > 0]] += df[df > 0]
        ranks.append(rank)
    bases = np.cumsum([0, *(len(reader.live_lengths) for reader in readers)]).tolist()
    blocks = (
        block
        for reader, rank, df, base in zip(readers, ranks, frequencies, bases, strict=False)
        for block in _live_blocks(reader, rank, df, base)
    )
    widest = max((reader.frequencies.dtype for reader in readers), key=lambda dtype: dtype.itemsize)
    postings = _placed(blocks, totals, widest)
    lengths = np.concatenate([reader.live_lengths for reader in readers])
    return write_segment_file(folder, chunk_ids, lengths, terms, postings, readers[0].description)


class _Block(NamedTuple):
    """Postings of some terms, each term's together and with ascending chunks."""

    terms: Integers
    counts: Integers
    ordinals: npt.NDArray[np.uint32]
    frequencies: npt.NDArray[Any]


class _Builder:
    """Collects analysed chunks until they make a segment."""

    def __init__(self) -> None:
        self.chunks = 0
        self._total_length = 0
        self._chunk_ids: list[pa.Array] = []
        self._lengths: list[Integers] = []
        self._term_numbers: dict[str, int] = {}
        self._blocks: list[_Block] = []

    def add(self, chunk_ids: pa.Array, terms: pa.LargeListArray) -> int:
        """Take as many chunks as fit, one at least into an empty segment. Returns how many were taken."""
        offsets = terms.offsets.to_numpy()
        fitting = int(np.searchsorted(offsets - offsets[0], MAX_LENGTH - self._total_length, "right")) - 1
        taken = min(len(chunk_ids), max(fitting, 0 if self.chunks else 1), MAX_CHUNKS - self.chunks)
        offsets = offsets[: taken + 1]
        lengths = np.diff(offsets)
        numbers = self._term_numbers
        known = [numbers.setdefault(term, len(numbers)) for term in terms.values.dictionary.to_pylist()]
        places = terms.values.indices.to_numpy()[offsets[0] : offsets[-1]]
        chunks = np.repeat(np.arange(self.chunks, self.chunks + taken), lengths)
        # One number a pair of term and chunk: sorting brings equal pairs together and orders both.
        pairs = np.sort((np.array(known, np.int64)[places] << 32) | chunks) if len(places) else chunks
        starts = np.flatnonzero(np.diff(pairs, prepend=-1))
        pair_terms = pairs[starts] >> 32
        first_of_term = np.flatnonzero(np.diff(pair_terms, prepend=-1))
        self._blocks.append(
            _Block(
                pair_terms[first_of_term],
                np.diff(first_of_term, append=len(starts)),
                (pairs[starts] & 0xFFFFFFFF).astype(np.uint32),
                _narrowed(np.diff(starts, append=len(pairs))),
            )
        )
        self._chunk_ids.append(flat_strings(chunk_ids[:taken]))
        self._lengths.append(lengths)
        self._total_length += int(offsets[-1] - offsets[0])
        self.chunks += taken
        return taken

    def write(self, folder: StorePath, language: str) -> BM25Segment:
        vocabulary = pa.array(list(self._term_numbers), pa.large_string())
        totals = np.zeros(len(vocabulary), np.int64)
        for block in self._blocks:
            totals[block.terms] += block.counts
        # A term that only chunks beyond this segment's end hold was numbered too.
        order = pc.array_sort_indices(vocabulary).to_numpy()
        order = order[totals[order] > 0]
        ranks = np.zeros(len(vocabulary), np.int64)
        ranks[order] = np.arange(len(order))
        blocks = (block._replace(terms=ranks[block.terms]) for block in self._blocks)
        widest = max((block.frequencies.dtype for block in self._blocks), key=lambda dtype: dtype.itemsize)
        postings = _placed(blocks, totals[order], widest)
        lengths = np.concatenate(self._lengths).astype(np.uint32)
        terms = vocabulary.take(pa.array(order))
        chunk_ids = concatenated_strings(self._chunk_ids)
        return write_segment_file(folder, chunk_ids, lengths, terms, postings, describe(language))


def _small(batches: Iterable[tuple[pa.Array, pa.Array]]) -> Iterator[tuple[pa.Array, pa.Array]]:
    for chunk_ids, texts in batches:
        for start in range(0, len(chunk_ids), _CHUNKS_PER_STEP):
            yield chunk_ids.slice(start, _CHUNKS_PER_STEP), texts.slice(start, _CHUNKS_PER_STEP)


def _live_blocks(reader: SegmentReader, ranks: Integers, counts: Integers, base: int) -> Iterator[_Block]:
    """The postings of a segment's live chunks, some millions at a time, with the terms and chunks of a merged one."""
    first = 0
    while first < len(ranks):
        start = int(reader.offsets[first])
        after = int(np.searchsorted(reader.offsets, start + _POSTINGS_PER_STEP, "right")) - 1
        after = max(after, first + 1)
        span = slice(start, int(reader.offsets[after]))
        ordinals, frequencies = reader.live_ordinals[reader.ordinals[span]], reader.frequencies[span]
        live = ordinals >= 0
        terms = first + np.flatnonzero(counts[first:after])
        shifted = (ordinals[live] + base).astype(np.uint32)
        yield _Block(ranks[terms], counts[terms], shifted, frequencies[live])
        first = after


def _placed(blocks: Iterable[_Block], totals: Integers, frequency_type: np.dtype[Any]) -> Postings:
    """Put every posting where its term's list goes on. Blocks come in the order of their chunks.

    Args:
        totals: postings of each term over all blocks, shape ``(terms,)``.
    """
    offsets = np.concatenate(([0], np.cumsum(totals)))
    nexts = offsets[:-1].copy()
    ordinals = np.empty(int(offsets[-1]), np.uint32)
    frequencies = np.empty(int(offsets[-1]), frequency_type)
    for block in blocks:
        places = concatenated_ranges(nexts[block.terms], block.counts)
        ordinals[places] = block.ordinals
        frequencies[places] = block.frequencies
        nexts[block.terms] += block.counts
    return Postings(offsets, ordinals, _narrowed(frequencies))


def _narrowed(frequencies: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return frequencies.astype(np.min_scalar_type(int(frequencies.max(initial=0))), copy=False)
