"""Stage `vector_table`: make the vector table hold one row a chunk, with its document's columns and its vector."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_pipeline.embedding.cache import EmbeddingCache
from rag_pipeline.errors import StoreError
from rag_pipeline.hashing import text_hash
from rag_pipeline.index.store import CHUNKS, DOCUMENTS, VECTORS
from rag_pipeline.index.vector_table import (
    CHUNK_COLUMNS,
    DOCUMENT_COLUMNS,
    HASH_COLUMNS,
    PARENT_COLUMNS,
    has_parents,
    same_layout,
    vector_schema,
)
from rag_pipeline.lance import append, create, delete_keys, read, read_keys, scan_keys
from rag_pipeline.refresh.chunks import chunk_keys
from rag_pipeline.refresh.context import RefreshContext
from rag_pipeline.refresh.document_rows import FAILED
from rag_pipeline.refresh.garbage import collects_own_garbage
from rag_pipeline.refresh.metadata_columns import carried, typed_column
from rag_pipeline.refresh.reconcile import difference, keys_by_document
from rag_pipeline.refresh.reports import VectorTableReport
from rag_pipeline.wording import counted

_ROWS_PER_BATCH = 4096


@collects_own_garbage
def refresh_vector_table(context: RefreshContext) -> VectorTableReport:
    """Reconcile the vector table with chunks, documents and the embedding cache.

    Another embedder identity, other metadata columns, and parents that come or go make a new table in place of the old
    one; published snapshots go on reading theirs.

    Raises:
        StoreError: an earlier stage has not run, or a vector is missing.
    """
    store = context.store
    documents, chunks = store.table(DOCUMENTS), store.table(CHUNKS)
    if documents is None or chunks is None:
        raise StoreError(f"{context.corpus.name}: run the `documents` and `chunks` stages before `vector_table`")
    schema = vector_schema(context.embedder.identity, context.corpus.metadata, has_parents(chunks))
    table = store.table(VECTORS)
    rebuild = table is None or context.full or not same_layout(table, schema)
    wanted = wanted_row_keys(context, documents, chunks)
    missing, outdated = difference(wanted, {} if rebuild else keys_by_document(table, "row_key"))
    before = table.count_rows() if table is not None else 0
    context.reporter.begin(context.corpus.name, "vector_table", None, "rows")
    batches = _batches(context, schema, context.embedding_cache(context.embedder), missing, wanted)
    deleted = 0
    if table is None or rebuild:
        create(store.database, VECTORS, schema, batches)
        deleted = before
    elif missing or outdated:
        delete_keys(table, "document_id", outdated)
        deleted = before - table.count_rows()
        append(table, schema, batches)
    table = store.table(VECTORS)
    if table is None:
        raise StoreError(f"{store.uri(VECTORS)}: the table vanished while it was written")
    rows = table.count_rows()
    report = VectorTableReport(
        rows=rows, rows_written=rows - before + deleted, rows_deleted=deleted, rebuilt=rebuild, version=table.version
    )
    context.reporter.end(f"{counted(report.rows, 'row')}, {report.rows_written} written")
    return report


def wanted_row_keys(context: RefreshContext, documents: Any, chunks: Any) -> dict[str, str]:
    """For each document with chunks, the hash over all that its rows are made from."""

    def find() -> dict[str, str]:
        hashes = read(documents, ["document_id", "document_hash"], f"status != '{FAILED}'")
        pairs = zip(hashes["document_id"].to_pylist(), hashes["document_hash"].to_pylist(), strict=True)
        keys = chunk_keys(context, chunks)
        return {name: text_hash(digest + keys[name]) for name, digest in pairs if name in keys}

    return context.found_in("wanted row keys", (documents, chunks), find)


def _batches(
    context: RefreshContext, schema: pa.Schema, cache: EmbeddingCache, names: Sequence[str], keys: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Join the chunks of these documents with their documents and vectors, some at a time."""
    documents, chunks = context.store.table(DOCUMENTS), context.store.table(CHUNKS)
    if not names or documents is None or chunks is None:
        return
    about = read_keys(documents, ["document_id", *DOCUMENT_COLUMNS, "metadata"], "document_id", names).combine_chunks()
    metadata = [carried(text) for text in about["metadata"].to_pylist()]
    fields = [json.loads(text) for text in metadata]
    declared = {
        name: typed_column([values.get(name) for values in fields], kind) for name, kind in context.corpus.metadata.items()
    }
    shown = pa.array(metadata, about["metadata"].type)
    row_keys = pa.array([keys[name] for name in about["document_id"].to_pylist()], pa.string())
    columns = [*CHUNK_COLUMNS, *HASH_COLUMNS, *(PARENT_COLUMNS if has_parents(chunks) else ())]
    for batch in scan_keys(chunks, columns, "document_id", names, _ROWS_PER_BATCH):
        at = pc.index_in(batch["document_id"], value_set=about["document_id"].combine_chunks())
        vectors = cache.vectors(batch["content_hash"])
        values = {name: batch[name] for name in columns}
        values |= {name: about[name].combine_chunks().take(at) for name in DOCUMENT_COLUMNS}
        values |= {name: column.take(at) for name, column in declared.items()}
        values |= {"metadata": shown.take(at), "row_key": row_keys.take(at)}
        flat = pa.array(vectors.ravel())
        values["vector"] = pa.FixedSizeListArray.from_arrays(flat, context.embedder.identity.dimensions)
        context.reporter.advance(batch.num_rows)
        yield pa.record_batch([values[field.name].cast(field.type) for field in schema], schema=schema)
