"""What changed from one snapshot to another: documents, chunks, and with a query set the answers."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from rag_pipeline.contracts import WRITTEN_LINES, Contract, SnapshotContent
from rag_pipeline.evaluation.asking import ask
from rag_pipeline.evaluation.evaluate import Evaluation, summary
from rag_pipeline.evaluation.gates import DEFAULT_METRIC, compare_metric, paired_results
from rag_pipeline.evaluation.query_set import QuerySet
from rag_pipeline.evaluation.results import Results
from rag_pipeline.evaluation.significance import Comparison
from rag_pipeline.query import Index

_TOP = 10


class MovedQuery(Contract):
    """A query whose first ten differ: what came in, what went out, in order of rank."""

    query_id: str
    text: str
    entered: tuple[str, ...]
    left: tuple[str, ...]


class SnapshotDifference(Contract):
    """From snapshot ``before`` to snapshot ``after``. Documents and chunks are named by their ids.

    ``comparisons`` compare nDCG@10 by mode, on the queries that both were asked.
    """

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
    comparisons: dict[str, Comparison] = Field(default_factory=dict)


def compare_snapshots(
    before: Index, after: Index, queries: QuerySet | None = None, results: tuple[Results, Results] | None = None
) -> SnapshotDifference:
    """Compare two opened snapshots of one corpus.

    Args:
        queries: are asked of both to see which answers moved.
        results: what both found when they were evaluated; without it, and with queries, it is found out now.
    """
    if results is None and queries is not None:
        results = ask(before, queries), ask(after, queries)
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
        configuration_changed=tuple(part for part in parts if _configured(old, part) != _configured(new, part)),
        moved=_moved(before, after, queries) if queries is not None else (),
        figures=(summary(before, results[0]), summary(after, results[1])) if results is not None else None,
        comparisons=_compared(*results) if results is not None else {},
    )


def _compared(before: Results, after: Results) -> dict[str, Comparison]:
    found = {mode: list(paired_results(before, after, mode)) for mode in after.modes if mode in before.modes}
    return {mode: compare_metric(pairs, DEFAULT_METRIC) for mode, pairs in found.items() if pairs}


def _configured(content: SnapshotContent, part: str) -> Any:
    """A part of the configuration, without what a model made of it."""
    values = getattr(content, part)
    return {name: value for name, value in values.items() if name != WRITTEN_LINES} if part == "chunking" else values


def _moved(before: Index, after: Index, queries: QuerySet) -> tuple[MovedQuery, ...]:
    moved = []
    for query, text in queries.queries.items():
        old = [hit.chunk_id for hit in before.search(text, k=_TOP)]
        new = [hit.chunk_id for hit in after.search(text, k=_TOP)]
        if old != new:
            entered = tuple(chunk for chunk in new if chunk not in old)
            moved.append(MovedQuery(query_id=query, text=text, entered=entered, left=tuple(c for c in old if c not in new)))
    return tuple(moved)
