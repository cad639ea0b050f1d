"""The version of what a stage made: a hash that is the same whenever, wherever and in how many refreshes it was made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rag_pipeline.contracts import Contract
from rag_pipeline.errors import StoreError
from rag_pipeline.hashing import text_hash, value_hash
from rag_pipeline.index.store import CHUNKS, DOCUMENTS
from rag_pipeline.index.vector_table import VECTOR_TABLE_VERSION
from rag_pipeline.index.working_segments import read_working_segments
from rag_pipeline.lance import read
from rag_pipeline.refresh.chunks import chunk_keys
from rag_pipeline.refresh.context import RefreshContext
from rag_pipeline.refresh.document_rows import FAILED
from rag_pipeline.refresh.reports import EvaluationReport, SnapshotReport


def data_version(context: RefreshContext, stage: str, report: Contract) -> str:
    """The version of what a stage has just made. The one of `snapshot` is its manifest's hash."""
    return _VERSIONS[stage](context, report)


def _documents(context: RefreshContext, _: Contract) -> str:
    table = _table(context, DOCUMENTS)

    def find() -> str:
        columns = read(table, ["document_id", "document_hash"], f"status != '{FAILED}'")
        return _keys_hash(dict(zip(*(column.to_pylist() for column in columns.columns), strict=True)))

    return context.found_in("version of documents", (table,), find)


def _chunks(context: RefreshContext, _: Contract) -> str:
    """What a document is cut into follows from what its chunks' key covers."""
    table = _table(context, CHUNKS)
    return context.found_in("version of chunks", (table,), lambda: _keys_hash(chunk_keys(context, table)))


def _embeddings(context: RefreshContext, report: Contract) -> str:
    return value_hash({"identity": context.embedder.identity.key, "chunks": _chunks(context, report)})


def _vector_table(context: RefreshContext, report: Contract) -> str:
    return value_hash(
        {
            "version": VECTOR_TABLE_VERSION,
            "identity": context.embedder.identity.key,
            "columns": dict(context.corpus.metadata),
            "documents": _documents(context, report),
            "chunks": _chunks(context, report),
        }
    )


def _bm25_index(context: RefreshContext, report: Contract) -> str:
    working = read_working_segments(context.store.bm25)
    if working is None:
        raise StoreError(f"{context.corpus.name}: the lexical index vanished during the refresh")
    return value_hash({"lexical": working.lexical_key, "chunks": _chunks(context, report)})


def _evaluation(_: RefreshContext, report: Contract) -> str:
    if not isinstance(report, EvaluationReport):
        raise TypeError(f"expected the report of the stage `evaluation`, got {type(report).__name__}")
    return value_hash(report.model_dump(mode="json", include={"kind", "query_set", "figures"}))


def _snapshot(_: RefreshContext, report: Contract) -> str:
    if not isinstance(report, SnapshotReport):
        raise TypeError(f"expected the report of the stage `snapshot`, got {type(report).__name__}")
    return report.hash


_VERSIONS: dict[str, Callable[[RefreshContext, Contract], str]] = {
    "documents": _documents,
    "chunks": _chunks,
    "embeddings": _embeddings,
    "vector_table": _vector_table,
    "bm25_index": _bm25_index,
    "evaluation": _evaluation,
    "snapshot": _snapshot,
}


def _table(context: RefreshContext, name: str) -> Any:
    table = context.store.table(name)
    if table is None:
        raise StoreError(f"{context.corpus.name}: the table {name} vanished during the refresh")
    return table


def _keys_hash(keys: Mapping[str, str]) -> str:
    """A hash over pairs of document and key, in whatever order they come."""
    return text_hash("".join(f"{name}\0{key}\n" for name, key in sorted(keys.items())))
