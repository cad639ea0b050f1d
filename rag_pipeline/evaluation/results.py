"""What every query of an evaluation found, kept in the store: the table ``evaluations``, a row a content, mode and query.

A content of which there was nothing to ask has a row without a query for each mode, so that nobody looks again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rag_pipeline.contracts import Contract
from rag_pipeline.evaluation.metrics import SHOWN_METRICS, figure
from rag_pipeline.evaluation.query_set import Kind, QuerySet
from rag_pipeline.index.store import EVALUATIONS, CorpusStore
from rag_pipeline.lance import append, create, read, sql_string

_SCHEMA = pa.schema(
    [
        ("content", pa.string()),
        ("kind", pa.string()),
        ("query_set", pa.string()),
        ("mode", pa.string()),
        ("query_id", pa.string()),
        ("text", pa.large_utf8()),
        ("grades", pa.large_utf8()),
        ("counted", pa.bool_()),
        ("found", pa.list_(pa.string())),
        ("ranks", pa.list_(pa.int32())),
        *((name, pa.float64()) for name in SHOWN_METRICS),
    ]
)


_RERANKED = "hybrid+"


def reranked_mode(reranker: str) -> str:
    """The name of hybrid searches under a reranker among the modes; ``reranker`` as `Index.search` takes it."""
    return f"{_RERANKED}{reranker}"


class QueryResult(Contract):
    """What one query found in one mode: the relevant documents among the first, and their ranks from 1.

    ``counted`` is false for a known item of another snapshot, asked only to compare with it.
    """

    query_id: str
    text: str
    grades: dict[str, int]
    counted: bool
    found: tuple[str, ...]
    ranks: tuple[int, ...]

    def figure(self, metric: str) -> float:
        """A metric by its name: all of them depend on where the relevant documents are, and on nothing else."""
        ranked = [""] * (self.ranks[-1] if self.ranks else 0)
        for document, rank in zip(self.found, self.ranks, strict=True):
            ranked[rank - 1] = document
        return figure(metric, ranked, self.grades)

    def without(self, documents: Collection[str]) -> QueryResult:
        """The same, as if these documents were not relevant."""
        kept = [(name, rank) for name, rank in zip(self.found, self.ranks, strict=True) if name not in documents]
        grades = {name: grade for name, grade in self.grades.items() if name not in documents}
        found, ranks = tuple(name for name, _ in kept), tuple(rank for _, rank in kept)
        return self.model_copy(update={"grades": grades, "found": found, "ranks": ranks})


def query_result(query_id: str, text: str, grades: Mapping[str, int], ranked: Sequence[str], counted: bool) -> QueryResult:
    """Judge one ranked list of documents."""
    places = [(document, rank) for rank, document in enumerate(ranked, 1) if grades.get(document, 0) > 0]
    return QueryResult(
        query_id=query_id,
        text=text,
        grades=dict(grades),
        counted=counted,
        found=tuple(document for document, _ in places),
        ranks=tuple(rank for _, rank in places),
    )


class Results(Contract):
    """All results of one content (a snapshot's, or a candidate's) for one set of queries, by mode."""

    content: str
    kind: Kind
    query_set: str
    modes: dict[str, tuple[QueryResult, ...]]

    @property
    def queries(self) -> int:
        """How many queries count."""
        return max((sum(result.counted for result in results) for results in self.modes.values()), default=0)

    def mean(self, mode: str, metric: str) -> float:
        """The mean over the queries that count; a query that found nothing counts with 0."""
        values = [result.figure(metric) for result in self.modes[mode] if result.counted]
        return sum(values) / len(values) if values else 0.0

    def figures(self) -> dict[str, dict[str, float]]:
        """The metrics that are shown, by mode."""
        return {mode: {name: self.mean(mode, name) for name in SHOWN_METRICS} for mode in self.modes}


def read_results(
    store: CorpusStore, content: str, kind: Kind, query_set: str | None = None, rerankers: Sequence[str] = ()
) -> Results | None:
    """What was measured of a content, or None when it never was.

    Args:
        content: the hash of a manifest's content.
        query_set: the hash of the query set; None takes the known items, of which a content has one set.
        rerankers: whose modes are read as well, where they were measured.
    """
    table = store.table(EVALUATIONS)
    if table is None:
        return None
    where = f"content = {sql_string(content)} AND kind = {sql_string(kind)}"
    if query_set is not None:
        where += f" AND query_set = {sql_string(query_set)}"
    columns = ["query_set", "mode", "query_id", "text", "grades", "counted", "found", "ranks"]
    modes: dict[str, list[QueryResult]] = {}
    wanted = {reranked_mode(name) for name in rerankers}
    rows = read(table, columns, where).to_pylist()
    for row in rows:
        if row["mode"].startswith(_RERANKED) and row["mode"] not in wanted:
            continue
        found = modes.setdefault(row["mode"], [])
        if row["query_id"] is None:
            continue
        found.append(
            QueryResult(
                query_id=row["query_id"],
                text=row["text"],
                grades=json.loads(row["grades"]),
                counted=row["counted"],
                found=tuple(row["found"]),
                ranks=tuple(row["ranks"]),
            )
        )
    if not rows:
        return None
    return Results(
        content=content,
        kind=kind,
        query_set=rows[0]["query_set"],
        modes={mode: tuple(results) for mode, results in modes.items()},
    )


def write_results(store: CorpusStore, results: Results) -> None:
    """Keep results, in one commit: all of an evaluation is there, or none of it."""
    about = {"content": results.content, "kind": results.kind, "query_set": results.query_set}
    rows = [
        {**about, "mode": mode, **(_row(result) if result is not None else {})}
        for mode, queries in results.modes.items()
        for result in queries or (None,)
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)
    table = store.table(EVALUATIONS)
    if table is None:
        create(store.database, EVALUATIONS, _SCHEMA, [batch])
    else:
        append(table, _SCHEMA, [batch])


def _row(result: QueryResult) -> dict[str, Any]:
    return {
        **result.model_dump(exclude={"grades"}),
        "grades": json.dumps(result.grades, ensure_ascii=False),
        **{name: result.figure(name) for name in SHOWN_METRICS},
    }


def asked_again(results: Results) -> QuerySet:
    """The queries that count, to be asked of another content."""
    first = next(iter(results.modes.values()), ())
    counted = [result for result in first if result.counted]
    return QuerySet(
        {result.query_id: result.text for result in counted},
        {result.query_id: dict(result.grades) for result in counted},
        results.kind,
    )
