"""Stage `bm25_index`: make the BM25 segments hold the chunks table's texts.

New chunks become a new segment, gone ones are marked deleted beside theirs, small segments are merged. A chunk's id
depends on its text, so that comparing ids is comparing contents.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_pipeline.errors import StoreError
from rag_pipeline.hashing import value_hash
from rag_pipeline.index.analyzer import ANALYZER_VERSION, Analyzer
from rag_pipeline.index.bm25 import compact, live_chunk_ids, write_deletions, write_segments
from rag_pipeline.index.store import CHUNKS
from rag_pipeline.index.working_segments import WorkingSegments, read_working_segments, write_working_segments
from rag_pipeline.lance import read, scan_keys
from rag_pipeline.refresh.context import RefreshContext
from rag_pipeline.refresh.embeddings import indexed_text
from rag_pipeline.refresh.garbage import collects_own_garbage
from rag_pipeline.refresh.reports import BM25Report


def lexical_key(context: RefreshContext) -> str:
    """The hash over all that decides how text becomes terms. How terms are scored is decided when an index is opened."""
    return value_hash({"analyzer": ANALYZER_VERSION, "language": context.corpus.lexical.language})


@collects_own_garbage
def refresh_bm25_index(context: RefreshContext) -> BM25Report:
    """Reconcile the BM25 segments with the chunks table.

    Raises:
        StoreError: the chunks stage has not run yet.
    """
    store, folder, key = context.store, context.store.bm25, lexical_key(context)
    chunks = store.table(CHUNKS)
    if chunks is None:
        raise StoreError(f"{context.corpus.name}: there is no chunks table yet; run its `chunks` stage first")
    working = None if context.full else read_working_segments(folder)
    rebuild = context.full or working is None or working.lexical_key != key
    segments = [] if working is None or rebuild else list(working.segments)
    wanted = read(chunks, ["chunk_id"])["chunk_id"].combine_chunks().cast(pa.large_utf8())
    present = live_chunk_ids(folder, segments)
    missing = wanted.filter(pc.invert(pc.is_in(wanted, value_set=present)))
    gone = present.filter(pc.invert(pc.is_in(present, value_set=wanted)))
    context.reporter.begin(context.corpus.name, "bm25_index", len(missing), "chunks")
    if len(gone):
        segments = [write_deletions(folder, segment, gone) for segment in segments]
    if len(missing):
        analyzer = Analyzer(context.corpus.lexical)
        segments += write_segments(folder, _texts(context, chunks, missing), analyzer)
    if rebuild or len(missing) or len(gone):
        segments = compact(folder, segments)
        write_working_segments(folder, WorkingSegments(lexical_key=key, segments=tuple(segments)))
    report = BM25Report(
        chunks=len(wanted),
        added=len(missing),
        deleted=len(gone),
        segments=len(segments),
        bytes=sum((folder / segment.file).stat().st_size for segment in segments),
        rebuilt=rebuild,
    )
    context.reporter.end(f"{report.chunks} chunks, {report.added} added, {report.deleted} deleted")
    return report


def _texts(context: RefreshContext, chunks: Any, missing: pa.Array) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Ids and texts of the chunks to index, some at a time."""
    columns = ["chunk_id", "context", "text"]
    for batch in scan_keys(chunks, columns, "chunk_id", missing.to_pylist()):
        context.reporter.advance(batch.num_rows)
        yield batch["chunk_id"], indexed_text(batch)
