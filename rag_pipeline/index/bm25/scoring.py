"""rank-bm25's classes with the storage replaced: scores come from postings instead of one dictionary a chunk.

Scores equal those of rank_bm25 0.2.2 over the same tokens of the live chunks. Document frequencies, the number of
chunks and their mean length count live chunks only, so an index that grew by many refreshes scores as one built at
once does. ``lucene`` is the one variant that rank_bm25 does not have: Okapi with Lucene's idf, which is positive for
every term, so that the smallest corpora are ranked right (Robertson's idf is negative for terms in more than half of
the chunks). Formulas: Kamphuis et al., "Which BM25 do you mean?", ECIR 2020.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from rank_bm25 import BM25L, BM25Okapi, BM25Plus

from rag_pipeline.config import LexicalConfig
from rag_pipeline.contracts import BM25Segment
from rag_pipeline.errors import StoreError
from rag_pipeline.index.bm25.files import REMEDY
from rag_pipeline.index.bm25.segments import SegmentReader, concatenated_strings, describe
from rag_pipeline.index.ranges import Integers
from rag_pipeline.storage import StorePath

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_CACHED_BYTES = 2**26
_FREQUENT_FRACTION = 1 / 8


class TermMatch(NamedTuple):
    """What one distinct query term adds to the score of one chunk. ``contribution`` counts its repetitions."""

    term: str
    frequency: int
    document_frequency: int
    idf: float
    contribution: float


class _TermPostings(NamedTuple):
    """The live chunks that hold a term, ascending, how often they do, and how many there are."""

    ordinals: npt.NDArray[Any]
    frequencies: npt.NDArray[Any]

    @property
    def document_frequency(self) -> int:
        return len(self.ordinals)


class _FrequentTerm(NamedTuple):
    """Of a term in many chunks: in how many, and what it adds to each chunk, times its idf; 0 where it is not."""

    document_frequency: int
    gains: Floats


class PostingsBM25:
    """Scores chunks from segments. Mixed into rank_bm25's classes, of which it replaces whatever touches their storage.

    Ordinals number the live chunks in the order of the segments. rank_bm25's ``doc_freqs`` and ``idf``, the
    dictionaries that are replaced, do not exist here. Safe to share between threads.

    Attributes:
        chunk_ids: of all live chunks, by ordinal.
        corpus_size: live chunks.
        doc_len: terms of each live chunk.
        avgdl: mean of ``doc_len``.
    """

    k1: float
    b: float

    def __init__(self, readers: Sequence[SegmentReader], k1: float, b: float) -> None:
        self.k1 = k1
        self.b = b
        self.tokenizer = None
        self._readers = list(readers)
        self._bases = np.cumsum([0, *(len(reader.live_lengths) for reader in readers)]).tolist()
        self.chunk_ids = concatenated_strings([reader.live_chunk_ids for reader in readers])
        lengths = [reader.live_lengths for reader in readers]
        self.doc_len = lengths[0] if len(lengths) == 1 else np.concatenate([np.zeros(0, np.uint32), *lengths])
        self.corpus_size = len(self.doc_len)
        self.avgdl = int(self.doc_len.sum(dtype=np.int64)) / self.corpus_size if self.corpus_size else 0.0
        self._frequent = _RecentTerms(_CACHED_BYTES)

    def get_scores(self, query: Sequence[str]) -> Floats:
        """The score of every live chunk, shape ``(corpus_size,)``."""
        return self._scored(query)[0]

    def get_batch_scores(self, query: Sequence[str], doc_ids: Sequence[int]) -> list[float]:
        """The scores of the chunks with these ordinals."""
        scores: list[float] = self.get_scores(query)[np.asarray(doc_ids, np.int64)].tolist()
        return scores

    def candidates(self, query: Sequence[str]) -> tuple[Integers, Floats]:
        """The ordinals, ascending, of all chunks that hold a query term, and their scores."""
        scores, matches = self._scored(query)
        ordinals = np.flatnonzero(matches)
        return ordinals, scores[ordinals]

    def top(self, query: Sequence[str], k: int, mask: Flags | None = None) -> tuple[Integers, Floats]:
        """The best of the chunks that hold a query term. Equal scores are ordered by chunk id.

        Args:
            k: how many at most.
            mask: shape ``(corpus_size,)``; chunks where it is False are passed over.

        Returns:
            Ordinals and scores, best first.
        """
        scores, matches = self._scored(query)
        if mask is not None:
            matches &= mask
        if k <= 0 or not matches.any():
            return np.zeros(0, np.int64), np.zeros(0, np.float64)
        ranked = np.where(matches, scores, -np.inf)
        ordinals = np.flatnonzero(matches & (ranked >= _reached_by(ranked, k)))
        order = pc.sort_indices(
            pa.table({"score": scores[ordinals], "chunk_id": self.chunk_ids.take(pa.array(ordinals))}),
            sort_keys=[("score", "descending"), ("chunk_id", "ascending")],
        )
        best: Integers = ordinals[order.to_numpy()[:k]]
        return best, scores[best]

    def explain(self, query: Sequence[str], ordinal: int) -> list[TermMatch]:
        """What each distinct query term adds to the score of one chunk; the contributions sum to its score.

        Terms that add nothing because the chunk does not hold them are left out.
        """
        matches = []
        repetitions = Counter(query)
        for term, postings in self._postings(list(repetitions)).items():
            place = int(np.searchsorted(postings.ordinals, ordinal))
            held = place < len(postings.ordinals) and postings.ordinals[place] == ordinal
            idf = self._idf(postings.document_frequency)
            gain = self._absent_gain
            if held:
                gain += float(self._gains(postings.frequencies[[place]], postings.ordinals[[place]])[0])
            if held or gain:
                frequency = int(postings.frequencies[place]) if held else 0
                contribution = repetitions[term] * idf * gain
                matches.append(TermMatch(term, frequency, postings.document_frequency, idf, contribution))
        return matches

    def coverage(self, query: Sequence[str], ordinal: int) -> float:
        """The part of a query that a chunk holds, from 0 to 1: rare terms are more of it than frequent ones.

        Each distinct term counts with Lucene's idf, whatever the variant; one that no chunk has is the rarest.
        """
        distinct = list(dict.fromkeys(query))
        frequent = {term: known for term in distinct if (known := self._frequent.get(term)) is not None}
        rare = self._postings([term for term in distinct if term not in frequent])
        held = total = 0.0
        for term in distinct:
            found = frequent.get(term) or rare.get(term)
            idf = _positive_idf(found.document_frequency if found is not None else 0, self.corpus_size)
            total += idf
            if isinstance(found, _FrequentTerm):
                held += idf if found.gains[ordinal] > 0 else 0.0
            elif found is not None:
                place = int(np.searchsorted(found.ordinals, ordinal))
                held += idf if ordinal in found.ordinals[place : place + 1] else 0.0
        return held / total if total else 0.0

    _absent_gain = 0.0
    """What a term adds, times its idf, to every chunk whether it holds the term or not."""

    def _gain(self, frequencies: npt.NDArray[Any], relative_lengths: Floats) -> Floats:
        """What terms of these frequencies add, times their idf.

        Args:
            relative_lengths: ``1 - b + b * length / mean length`` of the chunks.
        """
        raise NotImplementedError

    def _idf(self, document_frequency: int) -> float:
        raise NotImplementedError

    @cached_property
    def _relative_lengths(self) -> Floats:
        return 1 - self.b + self.b * self.doc_len.astype(np.float64) / (self.avgdl or 1.0)

    def _gains(self, frequencies: npt.NDArray[Any], ordinals: npt.NDArray[Any]) -> Floats:
        return self._gain(frequencies.astype(np.float64), self._relative_lengths[ordinals])

    def _scored(self, query: Sequence[str]) -> tuple[Floats, Flags]:
        """The score of every live chunk, and whether it holds a query term."""
        scores: Floats = np.zeros(self.corpus_size)
        matches: Flags | None = None
        absent = 0.0
        repetitions = Counter(query)
        frequent = {term: known for term in repetitions if (known := self._frequent.get(term)) is not None}
        rare = self._postings([term for term in repetitions if term not in frequent])
        for term, count in repetitions.items():  # summed in the order of the query, as rank_bm25 does
            if term in rare and rare[term].document_frequency >= _FREQUENT_FRACTION * self.corpus_size:
                frequent[term] = self._remembered(term, rare.pop(term))
            if term not in frequent and term not in rare:
                continue
            idf = self._idf(frequent[term].document_frequency if term in frequent else rare[term].document_frequency)
            weight = count * idf
            absent += weight * self._absent_gain
            if idf <= 0 and matches is None:
                matches = scores > 0
            if term in frequent:
                gains = frequent[term].gains
                scores += weight * gains
                if matches is not None:
                    matches |= gains > 0
            else:
                ordinals, frequencies = rare[term]
                scores[ordinals] += weight * self._gains(frequencies, ordinals)
                if matches is not None:
                    matches[ordinals] = True
        # As long as every idf is positive, a chunk has a score if and only if it holds a query term.
        found = scores > 0 if matches is None else matches
        if absent:
            scores += absent
        return scores, found

    def _remembered(self, term: str, postings: _TermPostings) -> _FrequentTerm:
        """The gains of a frequent term for all chunks, kept for later queries: adding them is cheap, making them not."""
        gains = np.zeros(self.corpus_size)
        gains[postings.ordinals] = self._gains(postings.frequencies, postings.ordinals)
        frequent = _FrequentTerm(postings.document_frequency, gains)
        self._frequent.put(term, frequent)
        return frequent

    def _postings(self, terms: Sequence[str]) -> dict[str, _TermPostings]:
        """The postings of those of some distinct terms that live chunks hold."""
        places = [reader.find(terms) for reader in self._readers]
        found = {}
        for number, term in enumerate(terms):
            parts = [
                self._live_postings(segment, column[number]) for segment, column in enumerate(places) if column[number] >= 0
            ]
            if not parts:
                continue
            postings = parts[0]
            if len(parts) > 1:
                ordinals, frequencies = zip(*parts, strict=True)
                postings = _TermPostings(np.concatenate(ordinals), np.concatenate(frequencies))
            if postings.document_frequency:
                found[term] = postings
        return found

    def _live_postings(self, segment: int, term: int) -> _TermPostings:
        reader, base = self._readers[segment], self._bases[segment]
        span = slice(reader.offsets[term], reader.offsets[term + 1])
        postings = _TermPostings(reader.ordinals[span], reader.frequencies[span])
        if reader.live is not None:
            ordinals = reader.live_ordinals[postings.ordinals]
            live = ordinals >= 0
            postings = _TermPostings(ordinals[live], postings.frequencies[live])
        return postings._replace(ordinals=postings.ordinals + base) if base else postings


def _positive_idf(document_frequency: int, corpus_size: int) -> float:
    return math.log(1 + (corpus_size - document_frequency + 0.5) / (document_frequency + 0.5))


class PostingsOkapi(PostingsBM25, BM25Okapi):  # type: ignore[misc]  # rank_bm25 has no types
    """rank_bm25.BM25Okapi: terms in more than half of the chunks get epsilon times the mean idf."""

    epsilon = 0.25

    @cached_property
    def average_idf(self) -> float:
        """Mean idf over the live vocabulary, before negative ones are replaced."""
        frequencies = self._document_frequencies().astype(np.float64)
        idf = np.log(self.corpus_size - frequencies + 0.5) - np.log(frequencies + 0.5)
        return float(idf.mean()) if len(idf) else 0.0

    def _document_frequencies(self) -> Integers:
        """Document frequencies of the live vocabulary, ascending, so that sums over them do not depend on history."""
        frequencies = [reader.live_document_frequencies for reader in self._readers]
        if len(frequencies) > 1:
            terms = concatenated_strings([reader.terms for reader in self._readers]).dictionary_encode()
            total = np.bincount(terms.indices.to_numpy(), np.concatenate(frequencies)).astype(np.int64)
        else:
            total = np.concatenate([np.zeros(0, np.int64), *frequencies])
        return np.sort(total[total > 0])

    def _idf(self, document_frequency: int) -> float:
        idf = math.log(self.corpus_size - document_frequency + 0.5) - math.log(document_frequency + 0.5)
        return self.epsilon * self.average_idf if idf < 0 else idf

    def _gain(self, frequencies: npt.NDArray[Any], relative_lengths: Floats) -> Floats:
        gain: Floats = frequencies * (self.k1 + 1) / (frequencies + self.k1 * relative_lengths)
        return gain


class PostingsLucene(PostingsOkapi):
    """BM25Okapi with the idf of Lucene's BM25Similarity, ``ln(1 + (N - df + 0.5) / (df + 0.5))``."""

    def _idf(self, document_frequency: int) -> float:
        return _positive_idf(document_frequency, self.corpus_size)


class PostingsBM25L(PostingsBM25, BM25L):  # type: ignore[misc]  # rank_bm25 has no types
    """rank_bm25.BM25L, which multiplies by the term's frequency once more than the paper does."""

    delta = 0.5

    def _idf(self, document_frequency: int) -> float:
        return math.log(self.corpus_size + 1) - math.log(document_frequency + 0.5)

    def _gain(self, frequencies: npt.NDArray[Any], relative_lengths: Floats) -> Floats:
        shifted = frequencies / relative_lengths + self.delta
        gain: Floats = frequencies * (self.k1 + 1) * shifted / (self.k1 + shifted)
        return gain


class PostingsBM25Plus(PostingsBM25, BM25Plus):  # type: ignore[misc]  # rank_bm25 has no types
    """rank_bm25.BM25Plus, which gives delta times the idf to chunks without the term as well."""

    delta = 1.0
    _absent_gain = delta

    def _idf(self, document_frequency: int) -> float:
        return math.log((self.corpus_size + 1) / document_frequency)

    def _gain(self, frequencies: npt.NDArray[Any], relative_lengths: Floats) -> Floats:
        gain: Floats = frequencies * (self.k1 + 1) / (self.k1 * relative_lengths + frequencies)
        return gain


class _RecentTerms:
    """Keeps the most recently used of the frequent terms, up to so many bytes."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._terms: OrderedDict[str, _FrequentTerm] = OrderedDict()
        self._lock = threading.Lock()
        self.size = 0

    def get(self, term: str) -> _FrequentTerm | None:
        with self._lock:
            if term in self._terms:
                self._terms.move_to_end(term)
            return self._terms.get(term)

    def put(self, term: str, known: _FrequentTerm) -> None:
        with self._lock:
            if term not in self._terms:
                self._terms[term] = known
                self.size += known.gains.nbytes
            while self.size > self._capacity:
                self.size -= self._terms.popitem(last=False)[1].gains.nbytes


def _reached_by(values: Floats, k: int) -> float:
    """A bound that k values or more reach, and few more than k unless many are equal; the least when there are fewer.

    The k-th largest of the maxima of blocks is such a bound, and far quicker than selecting among all values.
    """
    if len(values) <= k:
        return -math.inf
    width = len(values) // (4 * k)
    if width > 1:
        values = values[: len(values) // width * width].reshape(-1, width).max(axis=1)
    return float(np.partition(values, len(values) - k)[len(values) - k])


_VARIANTS: dict[str, type[PostingsBM25]] = {
    "lucene": PostingsLucene,
    "okapi": PostingsOkapi,
    "l": PostingsBM25L,
    "plus": PostingsBM25Plus,
}


def open_bm25(folder: StorePath, segments: Sequence[BM25Segment], config: LexicalConfig) -> PostingsBM25:
    """Open segments for searching. Their files are mapped into memory, and not compared with their SHA-256.

    Raises:
        StoreError: a file is missing or cut short, or was made by another analyzer than the configuration names.
    """
    readers = [SegmentReader(folder, segment) for segment in segments]
    expected = describe(config.language)
    for reader, segment in zip(readers, segments, strict=True):
        if reader.description != expected:
            raise StoreError(f"{folder / segment.file}: expected {expected}, got {reader.description}; {REMEDY}")
    return _VARIANTS[config.variant](readers, config.k1, config.b)
