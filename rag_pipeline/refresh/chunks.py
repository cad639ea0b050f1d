"""Stage `chunks`: make the chunks table hold the chunks of what the documents table holds.

A document is cut again when its text or structure, the chunking configuration or the tokenizer has changed; changed
metadata alone costs nothing here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rag_pipeline.contracts import HEADING_SEPARATOR, Chunk, Span
from rag_pipeline.errors import StoreError
from rag_pipeline.hashing import text_hash
from rag_pipeline.index.store import CHUNKS, DOCUMENTS
from rag_pipeline.index.vector_table import PARENT_COLUMNS
from rag_pipeline.lance import append, create, delete_keys, read, read_keys, scan_keys
from rag_pipeline.refresh.context import RefreshContext
from rag_pipeline.refresh.context_lines import ContextWriter, context_writer
from rag_pipeline.refresh.cutting import cut_documents
from rag_pipeline.refresh.document_rows import FAILED, Row, to_batch
from rag_pipeline.refresh.garbage import collects_own_garbage
from rag_pipeline.refresh.reconcile import difference, keys_by_document
from rag_pipeline.refresh.reports import ChunksReport
from rag_pipeline.wording import counted

CHUNKS_SCHEMA = pa.schema(
    [
        ("chunk_id", pa.string()),
        ("document_id", pa.string()),
        ("position", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("text", pa.large_utf8()),
        ("context", pa.string()),
        ("heading_path", pa.string()),
        ("page", pa.int32()),
        ("content_hash", pa.string()),
        ("text_hash", pa.string()),
        ("chunk_key", pa.string()),
    ]
)
PARENTS_SCHEMA = pa.schema([*CHUNKS_SCHEMA, *PARENT_COLUMNS.items()])
"""Of chunks that have parents."""
DOCUMENT_COLUMNS = ("document_id", "title", "media_type", "text", "structure", "metadata")
_DOCUMENTS_PER_BATCH = 256
_INCOMPLETE = "+"
"""Ends the key of a document's chunks while context lines are to be written for some, so that the next refresh sees it."""


@collects_own_garbage
def refresh_chunks(context: RefreshContext) -> ChunksReport:
    """Reconcile the chunks table with the documents table.

    Raises:
        StoreError: the documents stage has not run yet.
    """
    documents = context.store.table(DOCUMENTS)
    if documents is None:
        raise StoreError(f"{context.corpus.name}: there is no documents table yet; run its `documents` stage first")
    wanted = wanted_chunk_keys(context, documents)
    schema = PARENTS_SCHEMA if context.chunking.strategy == "parent-child" else CHUNKS_SCHEMA
    table = context.store.table(CHUNKS)
    present = chunk_keys(context, table) if table is not None else {}
    missing, outdated = difference(wanted, present)
    rebuild = table is None or table.schema.names != schema.names
    if context.full or rebuild:
        missing, outdated = list(wanted), list(present)
    context.reporter.begin(context.corpus.name, "chunks", len(missing), "documents")
    before = _chunk_ids(table, outdated)
    written: set[str] = set()
    writer = context_writer(context) if missing else None
    batches = _chunk_batches(context, documents, missing, wanted, written, schema, writer)
    if rebuild or (missing and len(missing) == len(wanted)):
        create(context.store.database, CHUNKS, schema, batches)
    elif missing or outdated:
        delete_keys(table, "document_id", outdated)
        append(table, schema, batches)
    table = context.store.table(CHUNKS)
    report = ChunksReport(
        total=table.count_rows() if table is not None else 0,
        added=len(written - before),
        removed=len(before - written),
        documents_chunked=len(missing),
        **({} if writer is None else writer.report()),
    )
    context.reporter.end(f"{counted(report.total, 'chunk')}, {report.added} added, {report.removed} removed")
    return report


def wanted_chunk_keys(context: RefreshContext, documents: Any) -> dict[str, str]:
    """For each document that is served, the hash over everything that its chunks depend on."""

    def find() -> dict[str, str]:
        columns = read(documents, ["document_id", "layout_hash"], f"status != '{FAILED}'")
        pairs = zip(columns["document_id"].to_pylist(), columns["layout_hash"].to_pylist(), strict=True)
        return {document: chunk_key(context, layout) for document, layout in pairs}

    return context.found_in("wanted chunk keys", (documents,), find)


def chunk_keys(context: RefreshContext, chunks: Any) -> dict[str, str]:
    """For each document with chunks, the key that they carry."""
    return context.found_in("chunk keys", (chunks,), lambda: keys_by_document(chunks, "chunk_key"))


def chunk_key(context: RefreshContext, layout_hash: str) -> str:
    """The hash over everything that a document's chunks depend on."""
    return text_hash(context.chunking_key + layout_hash)


def settled_chunk_keys(context: RefreshContext, chunks: Any) -> dict[str, str]:
    """`chunk_keys`, as if no document waited for context lines that could not be written."""
    return {document: key.removesuffix(_INCOMPLETE) for document, key in chunk_keys(context, chunks).items()}


def _chunk_ids(table: Any | None, documents: Sequence[str]) -> set[str]:
    if table is None or not documents:
        return set()
    return set(read_keys(table, ["chunk_id"], "document_id", documents)["chunk_id"].to_pylist())


def _chunk_batches(
    context: RefreshContext,
    documents: Any,
    names: Sequence[str],
    keys: Mapping[str, str],
    written: set[str],
    schema: pa.Schema,
    writer: ContextWriter | None,
) -> Iterator[pa.RecordBatch]:
    """Cut documents, some at a time. ``written`` collects the ids of all chunks."""
    if not names:
        return
    for batch in scan_keys(documents, DOCUMENT_COLUMNS, "document_id", names, _DOCUMENTS_PER_BATCH):
        rows: list[Row] = []
        for document in cut_documents(context, batch.to_pylist(), writer):
            name = document.document_id
            key = keys[name] if document.complete else keys[name] + _INCOMPLETE
            rows.extend(_chunk_rows(name, document.parsed.text, document.chunks, key))
        written.update(row["chunk_id"] for row in rows)
        context.reporter.advance(batch.num_rows)
        yield to_batch(rows, schema)


def _chunk_rows(document_id: str, text: str, chunks: Sequence[Chunk], key: str) -> Iterator[Row]:
    """Rows of one document's chunks.

    A chunk's id depends on its document and its indexed text, not on where it stands, so that an insertion above it
    changes neither the id nor the lexical index. Equal texts in one document are told apart by counting.
    """
    seen: Counter[str] = Counter()
    first_of: dict[Span, int] = {}
    for position, chunk in enumerate(chunks):
        content_hash = text_hash(chunk.indexed_text)
        occurrence = seen[content_hash]
        seen[content_hash] += 1
        yield {
            "chunk_id": text_hash(f"{document_id}\0{content_hash}\0{occurrence}")[:32],
            "document_id": document_id,
            "position": position,
            "start": chunk.start,
            "end": chunk.end,
            "text": chunk.text,
            "context": chunk.context,
            "heading_path": HEADING_SEPARATOR.join(chunk.heading_path),
            "page": chunk.page,
            "content_hash": content_hash,
            "text_hash": text_hash(chunk.text),
            "chunk_key": key,
            **({} if chunk.parent is None else _parent_values(text, chunk.parent, position, first_of)),
        }


def _parent_values(text: str, parent: Span, position: int, first_of: dict[Span, int]) -> Row:
    """The parent's columns of the chunk at a position. ``first_of`` collects where each parent's first chunk is."""
    first = first_of.setdefault(parent, position)
    shown = text[parent.start : parent.end]
    return {
        "parent_position": first,
        "parent_start": parent.start,
        "parent_end": parent.end,
        "parent_hash": text_hash(shown),
        "parent_text": shown if position == first else None,
    }
