"""Segments of the lexical index: immutable files of postings, and the files that list what was deleted from them.

A segment's columns (see `files`):

================  ===========================  ==================================================================
``chunk_ids``     large_string (chunks,)       a chunk's ordinal is its place in this list
``lengths``       uint32 (chunks,)             terms of each chunk
``terms``         large_string (terms,)        the vocabulary in the order of its UTF-8 bytes
``term_keys``     uint64 (terms,)              first eight bytes of each term, big-endian: what a search bisects
``offsets``       int64 (terms + 1,)           the postings of term t are ``offsets[t]`` up to ``offsets[t + 1]``
``ordinals``      uint32 (postings,)           chunks of each term, ascending
``frequencies``   uint8, 16 or 32 (postings,)  how often the term stands in that chunk
================  ===========================  ==================================================================

A deletions file has one column, the ``ordinals`` (uint32) of all chunks deleted since; when more are deleted, a new
file replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_pipeline.contracts import BM25Segment
from rag_pipeline.errors import StoreError
from rag_pipeline.index.analyzer import ANALYZER_VERSION
from rag_pipeline.index.bm25.files import REMEDY, read_columns, verify_file, write_columns
from rag_pipeline.index.ranges import Integers
from rag_pipeline.storage import StorePath

FORMAT_VERSION = 1

_KEY_BYTES = 8


class Postings(NamedTuple):
    """The columns ``offsets``, ``ordinals`` and ``frequencies`` of a segment."""

    offsets: Integers
    ordinals: npt.NDArray[np.uint32]
    frequencies: npt.NDArray[Any]


class SegmentReader:
    """One segment and what was deleted from it, mapped into memory.

    Attributes:
        chunk_ids: of all chunks, deleted ones too.
        lengths: uint32, terms of each chunk.
        ordinals: uint32, the postings' chunks.
        frequencies: unsigned, as long as ``ordinals``.
        live: bool, False for deleted chunks; None when nothing is deleted.

    Raises:
        StoreError: a file is missing or is not what its segment says.
    """

    def __init__(self, folder: StorePath, segment: BM25Segment) -> None:
        path = folder / segment.file
        row, self.description = read_columns(path, segment.sha256)
        self.chunk_ids: pa.LargeStringArray = row["chunk_ids"]
        self.terms: pa.LargeStringArray = row["terms"]
        self.lengths: npt.NDArray[np.uint32] = row["lengths"].to_numpy()
        self.offsets: Integers = row["offsets"].to_numpy()
        self.ordinals: npt.NDArray[np.uint32] = row["ordinals"].to_numpy()
        self.frequencies: npt.NDArray[np.unsignedinteger[Any]] = row["frequencies"].to_numpy()
        self._term_keys: npt.NDArray[np.uint64] = row["term_keys"].to_numpy()
        sizes = (len(self.chunk_ids), len(self.lengths), len(self.terms) + 1, len(self.ordinals))
        if sizes != (segment.chunks, segment.chunks, len(self.offsets), int(self.offsets[-1])):
            raise StoreError(f"{path}: its lists do not fit together; {REMEDY}")
        self.live: npt.NDArray[np.bool_] | None = None
        if segment.deletions_file is not None:
            deleted, description = read_columns(folder / segment.deletions_file, segment.deletions_sha256)
            self.live = np.ones(segment.chunks, np.bool_)
            self.live[deleted["ordinals"].to_numpy()] = False
            if description != {"segment": segment.sha256} or int((~self.live).sum()) != segment.deleted:
                raise StoreError(f"{folder / segment.deletions_file}: does not belong to {segment.file}; {REMEDY}")

    @property
    def live_chunk_ids(self) -> pa.LargeStringArray:
        return self.chunk_ids if self.live is None else self.chunk_ids.filter(pa.array(self.live))

    @property
    def live_lengths(self) -> npt.NDArray[np.uint32]:
        return self.lengths if self.live is None else self.lengths[self.live]

    @cached_property
    def live_ordinals(self) -> npt.NDArray[np.int64]:
        """The place of each chunk among the live ones, -1 for a deleted chunk."""
        live = np.ones(len(self.lengths), np.bool_) if self.live is None else self.live
        return np.where(live, np.cumsum(live) - 1, -1)

    @property
    def live_document_frequencies(self) -> Integers:
        """In how many live chunks each term stands."""
        if self.live is None:
            return np.diff(self.offsets)
        counted = np.concatenate(([0], np.cumsum(self.live[self.ordinals])))
        return np.diff(counted[self.offsets])

    def find(self, terms: Sequence[str]) -> list[int]:
        """The place of each term in the vocabulary, -1 for one that is not there."""
        encoded = [term.encode("utf-8", "replace") for term in terms]
        keys = np.array([int.from_bytes(term[:_KEY_BYTES].ljust(_KEY_BYTES, b"\0"), "big") for term in encoded], np.uint64)
        firsts = np.searchsorted(self._term_keys, keys, "left").tolist()
        ends = np.searchsorted(self._term_keys, keys, "right").tolist()
        return [self._bisect(*found) for found in zip(encoded, firsts, ends, strict=True)]

    def _bisect(self, term: bytes, first: int, end: int) -> int:
        while first < end:
            middle = (first + end) // 2
            found = self.terms[middle].as_buffer().to_pybytes()
            if found == term:
                return middle
            first, end = (middle + 1, end) if found < term else (first, middle)
        return -1


def describe(language: str) -> dict[str, Any]:
    """What is kept beside a segment's columns: segments that differ in it must not be searched or merged together."""
    return {"format": FORMAT_VERSION, "analyzer": ANALYZER_VERSION, "language": language}


def write_segment_file(
    folder: StorePath,
    chunk_ids: pa.LargeStringArray,
    lengths: npt.NDArray[np.uint32],
    terms: pa.LargeStringArray,
    postings: Postings,
    description: dict[str, Any],
) -> BM25Segment:
    """Write one segment. Its file depends on nothing but the arguments.

    Raises:
        StoreError: a chunk id occurs twice or is null.
    """
    if chunk_ids.null_count:
        raise StoreError(f"{folder}: a chunk without an id would be in a BM25 segment; {REMEDY}")
    if pc.count_distinct(chunk_ids).as_py() != len(chunk_ids):
        counts = chunk_ids.value_counts()
        twice = counts.filter(pc.greater(counts.field("counts"), 1))[0]["values"]
        raise StoreError(f"{folder}: chunk {twice.as_py()!r} would be in one BM25 segment twice; {REMEDY}")
    columns = {
        "chunk_ids": _compacted(chunk_ids),
        "lengths": pa.array(lengths),
        "terms": _compacted(terms),
        "term_keys": pa.array(_prefix_keys(terms)),
        "offsets": pa.array(postings.offsets),
        "ordinals": pa.array(postings.ordinals),
        "frequencies": pa.array(postings.frequencies),
    }
    file, sha256 = write_columns(folder, "postings", columns, description)
    return BM25Segment(file=file, sha256=sha256, chunks=len(chunk_ids))


def write_deletions(folder: StorePath, segment: BM25Segment, chunk_ids: pa.Array) -> BM25Segment:
    """Mark chunks of a segment as deleted, beside those that are already. The segment's own file stays as it is.

    Args:
        chunk_ids: those to delete. Ids that the segment does not hold are passed over.

    Returns:
        The segment with its new deletions file, or as it was when nothing more is deleted.
    """
    reader = SegmentReader(folder, segment)
    found = pc.is_in(reader.chunk_ids, value_set=flat_strings(chunk_ids)).to_numpy(zero_copy_only=False)
    deleted = found if reader.live is None else found | ~reader.live
    count = int(deleted.sum())
    if count == segment.deleted:
        return segment
    column = pa.array(np.flatnonzero(deleted).astype(np.uint32))
    file, sha256 = write_columns(folder, "deletions", {"ordinals": column}, {"segment": segment.sha256})
    return segment.model_copy(update={"deletions_file": file, "deletions_sha256": sha256, "deleted": count})


def live_chunk_ids(folder: StorePath, segments: Iterable[BM25Segment]) -> pa.LargeStringArray:
    """The ids of all chunks that are not deleted, in the order of the segments."""
    return concatenated_strings([SegmentReader(folder, segment).live_chunk_ids for segment in segments])


def verify_segment(folder: StorePath, segment: BM25Segment) -> None:
    """Read a segment's files and compare them with their SHA-256.

    Raises:
        StoreError: a file is missing or has changed.
    """
    verify_file(folder / segment.file, segment.sha256)
    if segment.deletions_file is not None and segment.deletions_sha256 is not None:
        verify_file(folder / segment.deletions_file, segment.deletions_sha256)


def flat_strings(strings: pa.Array | pa.ChunkedArray) -> pa.LargeStringArray:
    """Strings of any Arrow type as one array of large strings."""
    array = strings.combine_chunks() if isinstance(strings, pa.ChunkedArray) else strings
    return array.cast(pa.large_string())


def concatenated_strings(arrays: Sequence[pa.LargeStringArray]) -> pa.LargeStringArray:
    """All strings of several arrays; an only array is not copied."""
    if len(arrays) == 1:
        return arrays[0]
    return pa.concat_arrays(arrays) if arrays else pa.array([], pa.large_string())


def _compacted(strings: pa.LargeStringArray) -> pa.LargeStringArray:
    """The same strings, none of them null, without what a slice leaves in the buffers: these bytes are hashed."""
    _, offset_buffer, data = strings.buffers()
    if not len(strings) or data is None:
        return pa.array([""] * len(strings), pa.large_string())
    offsets = np.frombuffer(offset_buffer, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    used = data.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    return pa.LargeStringArray.from_buffers(len(strings), pa.py_buffer(offsets - offsets[0]), used)


def _prefix_keys(terms: pa.LargeStringArray) -> npt.NDArray[np.uint64]:
    """The first eight bytes of each term as a big-endian number; short terms end in zeros, which no term holds."""
    _, offset_buffer, data = terms.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[terms.offset : terms.offset + len(terms) + 1]
    characters = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
    keys = np.zeros(len(terms), np.uint64)
    for position in range(_KEY_BYTES):
        places = offsets[:-1] + position
        inside = places < offsets[1:]
        keys <<= np.uint64(8)
        keys[inside] |= characters[places[inside]]
    return keys
