"""Stage `bm25_index`: make the BM25 segments hold the chunks table's texts.

New chunks become a new segment, gone ones are marked deleted beside theirs, small segments are merged. A chunk's id
depends on its text, so that comparing ids is comparing contents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_pipeline.config import LexicalConfig
from rag_pipeline.contracts import BM25Segment
from rag_pipeline.errors import StoreError
from rag_pipeline.hashing import value_hash
from rag_pipeline.index.analyzer import ANALYZER_VERSION, Analyzer
from rag_pipeline.index.bm25 import compact, live_chunk_ids, write_deletions, write_segments
from rag_pipeline.index.language import SAMPLED_TEXTS, LanguageSample, corpus_language
from rag_pipeline.index.snapshot import served_manifest
from rag_pipeline.index.store import CHUNKS
from rag_pipeline.index.working_segments import WorkingSegments, read_working_segments, write_working_segments
from rag_pipeline.lance import read, scan, scan_keys
from rag_pipeline.refresh.context import RefreshContext
from rag_pipeline.refresh.embeddings import indexed_text
from rag_pipeline.refresh.garbage import collects_own_garbage
from rag_pipeline.refresh.reports import BM25Report
from rag_pipeline.storage import StorePath
from rag_pipeline.wording import counted


def lexical_key(language: str) -> str:
    """The hash over all that decides how text becomes terms. How terms are scored is decided when an index is opened."""
    return value_hash({"analyzer": ANALYZER_VERSION, "language": language})


@collects_own_garbage
def refresh_bm25_index(context: RefreshContext) -> BM25Report:
    """Reconcile the BM25 segments with the chunks table.

    Raises:
        StoreError: the chunks stage has not run yet.
    """
    store, folder = context.store, context.store.bm25
    chunks = store.table(CHUNKS)
    if chunks is None:
        raise StoreError(f"{context.corpus.name}: there is no chunks table yet; run its `chunks` stage first")
    working = _working_segments(context)
    kept = None if context.full else working
    segments = [] if kept is None else list(kept.segments)
    wanted = read(chunks, ["chunk_id"])["chunk_id"].combine_chunks().cast(pa.large_utf8())
    missing, gone = _difference(folder, segments, wanted)
    lexical = _resolved(context, chunks, kept, changed=bool(len(missing) or len(gone)))
    key = lexical_key(lexical.language)
    rebuild = kept is None or kept.lexical_key != key
    if rebuild and segments:
        segments = []
        missing, gone = _difference(folder, segments, wanted)
    context.reporter.begin(context.corpus.name, "bm25_index", len(missing), "chunks")
    if len(gone):
        segments = [write_deletions(folder, segment, gone) for segment in segments]
    if len(missing):
        segments += write_segments(folder, _texts(context, chunks, missing), Analyzer(lexical))
    if rebuild or len(missing) or len(gone):
        segments = compact(folder, segments)
    found = context.corpus.lexical.language == "auto"
    left = WorkingSegments(lexical_key=key, language=lexical.language, found=found, segments=tuple(segments))
    if left != working:
        write_working_segments(folder, left)
    before = language_before(context, working)
    report = BM25Report(
        chunks=len(wanted),
        added=len(missing),
        deleted=len(gone),
        segments=len(segments),
        bytes=sum((folder / segment.file).stat().st_size for segment in segments),
        rebuilt=rebuild,
        language=lexical.language,
        language_before=before if before != lexical.language else None,
    )
    context.reporter.end(f"{counted(report.chunks, 'chunk')}, {report.added} added, {report.deleted} deleted")
    return report


def language_before(context: RefreshContext, working: WorkingSegments | None) -> str | None:
    """The language of what is served, or where nothing is, of what an earlier refresh has left; None without either."""
    served = served_manifest(context.store)
    if served is not None:
        return str(served.content.lexical["language"])
    return working.language if working is not None else None


def _working_segments(context: RefreshContext) -> WorkingSegments | None:
    try:
        return read_working_segments(context.store.bm25)
    except StoreError:
        if context.full:  # it is only asked which language was there before
            return None
        raise


def sampled_texts(chunks: Any, without_documents: Set[str] = frozenset()) -> LanguageSample:
    """The sample of a chunks table that its language is found by."""
    left_out = pa.array(list(without_documents), pa.string())
    least = pa.array([], pa.string())
    for batch in scan(chunks, ["document_id", "content_hash"] if without_documents else ["content_hash"]):
        if without_documents:
            batch = batch.filter(pc.invert(pc.is_in(batch["document_id"], value_set=left_out)))
        different = pa.concat_arrays([least, batch["content_hash"]]).unique()
        least = different.take(pc.select_k_unstable(different, SAMPLED_TEXTS, [("", "ascending")]))
    sample = LanguageSample()
    columns = ["content_hash", "context", "text"]
    for batch in scan_keys(chunks, columns, "content_hash", least.to_pylist()) if len(least) else ():
        for digest, text in zip(batch["content_hash"].to_pylist(), indexed_text(batch).to_pylist(), strict=True):
            sample.offer(digest, text)
    return sample


def _resolved(context: RefreshContext, chunks: Any, kept: WorkingSegments | None, changed: bool) -> LexicalConfig:
    """The lexical configuration with the language that is configured, or found in the chunks."""
    lexical, known = context.corpus.lexical, kept.language if kept is not None and kept.found else None
    if lexical.language != "auto":
        return lexical
    language = known if known is not None and not changed else corpus_language(sampled_texts(chunks).texts(), known)
    return LexicalConfig.model_validate({**lexical.model_dump(), "language": language})


def _difference(folder: StorePath, segments: Sequence[BM25Segment], wanted: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The chunks that segments lack, and those that they hold too many."""
    present = live_chunk_ids(folder, segments)
    missing = wanted.filter(pc.invert(pc.is_in(wanted, value_set=present)))
    return missing, present.filter(pc.invert(pc.is_in(present, value_set=wanted)))


def _texts(context: RefreshContext, chunks: Any, missing: pa.Array) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Ids and texts of the chunks to index, some at a time."""
    columns = ["chunk_id", "context", "text"]
    for batch in scan_keys(chunks, columns, "chunk_id", missing.to_pylist()):
        context.reporter.advance(batch.num_rows)
        yield batch["chunk_id"], indexed_text(batch)
