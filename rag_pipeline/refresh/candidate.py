"""The candidate: what the next snapshot will hold, as the stages before have made it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from rag_pipeline.config import HOSTED_PROVIDERS
from rag_pipeline.contracts import (
    WRITTEN_LINES,
    BM25Segment,
    Counts,
    EmbeddingSpend,
    EvaluationRecord,
    Manifest,
    ModelAccess,
    SnapshotContent,
    TableVersion,
    TunedFusion,
)
from rag_pipeline.errors import ConflictError, StoreError
from rag_pipeline.hashing import value_hash
from rag_pipeline.index.store import CHUNKS, DOCUMENTS, VECTORS
from rag_pipeline.index.working_segments import read_working_segments
from rag_pipeline.lance import read
from rag_pipeline.refresh.chunks import settled_chunk_keys, wanted_chunk_keys
from rag_pipeline.refresh.context import RefreshContext
from rag_pipeline.refresh.document_rows import FAILED, STALE
from rag_pipeline.refresh.reasons import lexical_settings, retrieval_settings
from rag_pipeline.refresh.reconcile import difference, keys_by_document
from rag_pipeline.refresh.vector_table import wanted_row_keys
from rag_pipeline.wording import counted


@dataclass(frozen=True)
class Candidate:
    """``hash`` is that of ``content``, which a snapshot made of it will have."""

    content: SnapshotContent
    hash: str
    counts: Counts
    segments: tuple[BM25Segment, ...]
    vectors_version: int

    def manifest(
        self,
        context: RefreshContext,
        number: int,
        version: TableVersion,
        spent: EmbeddingSpend | None = None,
        evaluation: EvaluationRecord | None = None,
        fusion: TunedFusion | None = None,
    ) -> Manifest:
        """The manifest of a snapshot with this number that holds the candidate."""
        return Manifest(
            corpus=context.corpus.name,
            snapshot=number,
            hash=self.hash,
            created_at=datetime.now(timezone.utc),
            run_id=context.run_id,
            content=self.content,
            vector_table=version,
            bm25=self.segments,
            counts=self.counts,
            model_access=model_access(context),
            fusion=fusion,
            embedding=spent,
            evaluation=evaluation,
        )


def working_candidate(context: RefreshContext, stage: str) -> Candidate:
    """The candidate as the store holds it now.

    Args:
        stage: who asks, for the message.

    Raises:
        StoreError: an earlier stage has not run.
    """
    store = context.store
    documents, vectors, working = store.table(DOCUMENTS), store.table(VECTORS), read_working_segments(store.bm25)
    if documents is None or vectors is None or working is None:
        raise StoreError(f"{context.corpus.name}: run the stages before `{stage}` first")
    language = working.language or context.corpus.lexical.language

    def find() -> tuple[SnapshotContent, str, int, int]:
        columns = read(documents, ["document_id", "status", "document_hash"])
        rows = list(zip(*(columns[name].to_pylist() for name in columns.column_names), strict=True))
        content = _content(context, language, {name: digest for name, status, digest in rows if status != FAILED})
        stale, failed = (sum(status == counted for _, status, _ in rows) for counted in (STALE, FAILED))
        return content, content.hash, stale, failed

    name = f"candidate of {context.embedder.identity.key} in {language}"
    chunks = store.table(CHUNKS)
    content, digest, stale, failed = context.found_in(name, (documents, *([] if chunks is None else [chunks])), find)
    counts = Counts(
        documents=len(content.documents), stale_documents=stale, failed_documents=failed, chunks=vectors.count_rows()
    )
    return Candidate(content, digest, counts, working.segments, vectors.version)


def check_agreement(context: RefreshContext, candidate: Candidate) -> None:
    """Documents, chunks, vector table and lexical index belong together.

    Raises:
        StoreError: vector table and lexical index do not hold the same chunks.
        ConflictError: another refresh changed the tables meanwhile, or a stage has not run.
    """
    rows = candidate.counts.chunks
    lexical = sum(segment.chunks - segment.deleted for segment in candidate.segments)
    if rows != lexical:
        raise StoreError(
            f"{context.corpus.name}: the vector table holds {counted(rows, 'chunk')} and the lexical index {lexical}; "
            f"refresh again, with --full if this comes back"
        )
    store = context.store
    documents, chunks, vectors = store.table(DOCUMENTS), store.table(CHUNKS), store.table(VECTORS)
    if documents is None or chunks is None or vectors is None:
        raise StoreError(f"{context.corpus.name}: a table vanished during the refresh")

    def find() -> bool:
        cut = difference(wanted_chunk_keys(context, documents), settled_chunk_keys(context, chunks))
        joined = difference(wanted_row_keys(context, documents, chunks), keys_by_document(vectors, "row_key"))
        return not any((*cut, *joined))

    if not context.found_in("agreement", (documents, chunks, vectors), find):
        raise ConflictError(
            f"{context.corpus.name}: the tables do not belong together: another refresh changed them meanwhile, or the "
            f"stages between `documents` and `snapshot` have not run. Refresh the corpus"
        )


def _written_lines(context: RefreshContext) -> dict[str, str]:
    """A hash over what stands under the lines of a chat model, which writes other ones when it is asked again."""
    chunks = context.store.table(CHUNKS)
    if context.chunking.context != "llm" or chunks is None:
        return {}
    return {WRITTEN_LINES: value_hash(sorted(set(read(chunks, ["content_hash"])["content_hash"].to_pylist())))}


def _content(context: RefreshContext, language: str, documents: dict[str, str]) -> SnapshotContent:
    return SnapshotContent(
        embedder=context.embedder.identity,
        query_model=context.embedder_config.query_model,
        chunking={**context.chunking_settings, **_written_lines(context)},
        lexical=lexical_settings(context, language),
        retrieval=retrieval_settings(context),
        metadata_columns=dict(context.corpus.metadata),
        documents=documents,
    )


def model_access(context: RefreshContext) -> ModelAccess:
    """Where queries against what is published now find the model."""
    config = context.embedder_config
    hosted = config.provider in HOSTED_PROVIDERS
    folder = config.model if not hosted and config.model is not None and Path(config.model).is_dir() else None
    return ModelAccess(model=folder, api_base=config.api_base, dimensions=config.dimensions if hosted else None)
