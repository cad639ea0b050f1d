"""Stage `snapshot`: publish what the stages before have made, unless it is what is served already."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from rag_pipeline.config import HOSTED_PROVIDERS
from rag_pipeline.contracts import BM25Segment, Counts, EmbeddingSpend, Manifest, ModelAccess, SnapshotContent, TableVersion
from rag_pipeline.errors import ConflictError, StoreError
from rag_pipeline.index.analyzer import ANALYZER_VERSION
from rag_pipeline.index.retention import maintain
from rag_pipeline.index.snapshot import publish, read_manifest, read_pointer, served_manifest
from rag_pipeline.index.store import CHUNKS, DOCUMENTS, VECTORS
from rag_pipeline.index.working_segments import WorkingSegments, read_working_segments
from rag_pipeline.lance import read
from rag_pipeline.refresh.chunks import chunk_keys, wanted_chunk_keys
from rag_pipeline.refresh.context import RefreshContext
from rag_pipeline.refresh.document_rows import FAILED, STALE
from rag_pipeline.refresh.embedding_record import read_embedding_record, write_embedding_record
from rag_pipeline.refresh.garbage import collects_own_garbage
from rag_pipeline.refresh.reconcile import difference, keys_by_document
from rag_pipeline.refresh.reports import SnapshotReport
from rag_pipeline.refresh.vector_table import wanted_row_keys


@collects_own_garbage
def refresh_snapshot(context: RefreshContext) -> SnapshotReport:
    """Publish a new snapshot when the candidate differs from the one that is served, or everything was rebuilt.

    While a rollback holds, nothing is published. What old snapshots alone had is cleared away after publishing.

    Raises:
        StoreError: an earlier stage has not run, or vector table and lexical index do not hold the same chunks.
        ConflictError: another refresh changed the tables, or another process published, meanwhile.
    """
    store = context.store
    documents, vectors, working = store.table(DOCUMENTS), store.table(VECTORS), read_working_segments(store.bm25)
    if documents is None or vectors is None or working is None:
        raise StoreError(f"{context.corpus.name}: run the stages before `snapshot` first")
    columns = read(documents, ["document_id", "status", "document_hash"])
    rows = list(zip(*(columns[name].to_pylist() for name in columns.column_names), strict=True))
    content = _content(context, working, {name: digest for name, status, digest in rows if status != FAILED})
    counts = Counts(
        documents=len(content.documents),
        stale_documents=sum(status == STALE for _, status, _ in rows),
        failed_documents=sum(status == FAILED for _, status, _ in rows),
        chunks=vectors.count_rows(),
    )
    _check_agreement(context, counts.chunks, working.segments)
    context.reporter.begin(context.corpus.name, "snapshot", None, "snapshots")
    pointer = read_pointer(store)
    served = served_manifest(store)
    if pointer is not None and pointer.held:
        served = read_manifest(store)
        context.reporter.end(f"snapshot {served.snapshot} is held by a rollback; `rag-pipeline release` lets go of it")
        return _report(served, served, published=False, held=True)
    if served is not None and served.hash == content.hash and not context.full:
        context.reporter.end(f"snapshot {served.snapshot} holds all of it already")
        return _report(served, served, published=False)

    record = read_embedding_record(store)

    def build(number: int, version: TableVersion) -> Manifest:
        return Manifest(
            corpus=context.corpus.name,
            snapshot=number,
            hash=content.hash,
            created_at=datetime.now(timezone.utc),
            run_id=context.run_id,
            content=content,
            vector_table=version,
            bm25=working.segments,
            counts=counts,
            model_access=_model_access(context),
            embedding=record.spent if record is not None else None,
        )

    manifest = publish(store, pointer, build)
    if record is not None:
        write_embedding_record(store, record.model_copy(update={"spent": EmbeddingSpend()}))
    done = maintain(store, context.corpus.keep_snapshots, context.corpus.keep_days)
    context.reporter.end(f"snapshot {manifest.snapshot} is served, {len(done.snapshots_dropped)} old ones dropped")
    return _report(manifest, served, published=True, dropped=len(done.snapshots_dropped))


def _content(context: RefreshContext, working: WorkingSegments, documents: dict[str, str]) -> SnapshotContent:
    corpus = context.corpus
    language = working.language or corpus.lexical.language
    return SnapshotContent(
        embedder=context.embedder.identity,
        query_model=context.embedder_config.query_model,
        chunking=context.chunking_settings,
        lexical={**corpus.lexical.model_dump(mode="json"), "language": language, "analyzer": ANALYZER_VERSION},
        retrieval=corpus.retrieval.model_dump(mode="json"),
        metadata_columns=dict(corpus.metadata),
        documents=documents,
    )


def _model_access(context: RefreshContext) -> ModelAccess:
    config = context.embedder_config
    hosted = config.provider in HOSTED_PROVIDERS
    folder = config.model if not hosted and config.model is not None and Path(config.model).is_dir() else None
    return ModelAccess(model=folder, api_base=config.api_base, dimensions=config.dimensions if hosted else None)


def _check_agreement(context: RefreshContext, rows: int, segments: tuple[BM25Segment, ...]) -> None:
    lexical = sum(segment.chunks - segment.deleted for segment in segments)
    if rows != lexical:
        raise StoreError(
            f"{context.corpus.name}: the vector table holds {rows} chunks and the lexical index {lexical}; "
            f"refresh again, with --full if this comes back"
        )
    store = context.store
    documents, chunks, vectors = store.table(DOCUMENTS), store.table(CHUNKS), store.table(VECTORS)
    if documents is None or chunks is None or vectors is None:
        raise StoreError(f"{context.corpus.name}: a table vanished during the refresh")
    cut = difference(wanted_chunk_keys(context, documents), chunk_keys(context, chunks))
    joined = difference(wanted_row_keys(context, documents, chunks), keys_by_document(vectors, "row_key"))
    if any((*cut, *joined)):
        raise ConflictError(
            f"{context.corpus.name}: the tables do not belong together: another refresh changed them meanwhile, or the "
            f"stages between `documents` and `snapshot` have not run. Refresh the corpus"
        )


def _report(
    manifest: Manifest, before: Manifest | None, published: bool, held: bool = False, dropped: int = 0
) -> SnapshotReport:
    old, new = before.content.documents if before is not None else {}, manifest.content.documents
    return SnapshotReport(
        snapshot=manifest.snapshot,
        published=published,
        held=held,
        snapshots_dropped=dropped,
        documents_added=len(new.keys() - old.keys()),
        documents_changed=sum(old[name] != digest for name, digest in new.items() if name in old),
        documents_removed=len(old.keys() - new.keys()),
        hash=manifest.hash,
        documents=manifest.counts.documents,
        chunks=manifest.counts.chunks,
    )
