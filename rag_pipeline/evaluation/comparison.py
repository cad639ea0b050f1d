"""What changed from one snapshot to another: documents, chunks, and with a query set the answers."""

from __future__ import annotations

from pydantic import Field

from rag_pipeline.contracts import Contract
from rag_pipeline.evaluation.evaluate import Evaluation, evaluate
from rag_pipeline.evaluation.query_set import QuerySet
from rag_pipeline.query import Index

_TOP = 10


class MovedQuery(Contract):
    """A query whose first ten differ: what came in, what went out, in order of rank."""

    query_id: str
    text: str
    entered: tuple[str, ...]
    left: tuple[str, ...]


class SnapshotDifference(Contract):
    """From snapshot ``before`` to snapshot ``after``. Documents and chunks are named by their ids."""

    corpus: str
    before: int
    after: int
    documents_added: tuple[str, ...]
    documents_changed: tuple[str, ...]
    documents_removed: tuple[str, ...]
    chunks_added: int
    chunks_removed: int
    configuration_changed: tuple[str, ...] = Field(description="parts of the configuration that differ")
    moved: tuple[MovedQuery, ...] = ()
    figures: tuple[Evaluation, Evaluation] | None = None


def compare_snapshots(before: Index, after: Index, queries: QuerySet | None = None) -> SnapshotDifference:
    """Compare two opened snapshots of one corpus."""
    old, new = before.manifest.content, after.manifest.content
    shared = old.documents.keys() & new.documents.keys()
    parts = ("embedder", "chunking", "lexical", "retrieval", "metadata_columns")
    old_chunks, new_chunks = before.chunk_ids(), after.chunk_ids()
    return SnapshotDifference(
        corpus=after.corpus,
        before=before.snapshot,
        after=after.snapshot,
        documents_added=tuple(sorted(new.documents.keys() - old.documents.keys())),
        documents_changed=tuple(sorted(name for name in shared if old.documents[name] != new.documents[name])),
        documents_removed=tuple(sorted(old.documents.keys() - new.documents.keys())),
        chunks_added=len(new_chunks - old_chunks),
        chunks_removed=len(old_chunks - new_chunks),
        configuration_changed=tuple(part for part in parts if getattr(old, part) != getattr(new, part)),
        moved=_moved(before, after, queries) if queries is not None else (),
        figures=(evaluate(before, queries), evaluate(after, queries)) if queries is not None else None,
    )


def _moved(before: Index, after: Index, queries: QuerySet) -> tuple[MovedQuery, ...]:
    moved = []
    for query, text in queries.queries.items():
        old = [hit.chunk_id for hit in before.search(text, k=_TOP)]
        new = [hit.chunk_id for hit in after.search(text, k=_TOP)]
        if old != new:
            entered = tuple(chunk for chunk in new if chunk not in old)
            moved.append(MovedQuery(query_id=query, text=text, entered=entered, left=tuple(c for c in old if c not in new)))
    return tuple(moved)
