"""How well an index answers a query set, mode by mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import Field

from rag_pipeline.config import EVALUATED_DOCUMENTS, HOSTED_PROVIDERS
from rag_pipeline.contracts import Contract, Manifest
from rag_pipeline.embedding import Embedder
from rag_pipeline.evaluation.known_items import known_items
from rag_pipeline.evaluation.query_set import Kind, QuerySet
from rag_pipeline.evaluation.results import Results, query_result, read_results
from rag_pipeline.index.snapshot import open_vector_table
from rag_pipeline.index.store import CorpusStore
from rag_pipeline.query import Index
from rag_pipeline.query.index import DEFAULT_MEMORY_BUDGET, MODES, Mode

_FIRST_CHUNKS = 300
_KNOWN_ITEM_CHUNKS = 100
"""How many chunks a known item looks at. What a query set is good for asks for 100 documents; a guard may be cheap."""


class Figures(Contract):
    """Means over all judged queries; a query without any result counts with 0."""

    ndcg_at_10: float = Field(serialization_alias="ndcg@10")
    recall_at_10: float = Field(serialization_alias="recall@10")
    recall_at_100: float = Field(serialization_alias="recall@100")
    precision_at_10: float = Field(serialization_alias="precision@10")
    mrr_at_10: float = Field(serialization_alias="mrr@10")
    map_at_100: float = Field(serialization_alias="map@100")
    queries: int


class Evaluation(Contract):
    """The figures of one snapshot, by mode."""

    corpus: str
    snapshot: int
    modes: dict[str, Figures]

    @property
    def queries(self) -> int:
        return max((figures.queries for figures in self.modes.values()), default=0)


def evaluate(index: Index, queries: QuerySet, modes: Sequence[Mode] = MODES) -> Evaluation:
    """Ask every query in every mode."""
    return summary(index, ask(index, queries, modes))


def summary(index: Index, results: Results) -> Evaluation:
    """The means of what was found in an index."""
    modes = {
        mode: Figures(**{name.replace("@", "_at_"): value for name, value in figures.items()}, queries=results.queries)
        for mode, figures in results.figures().items()
    }
    return Evaluation(corpus=index.corpus, snapshot=index.snapshot, modes=modes)


def modes_of(kind: Kind, provider: str) -> tuple[Mode, ...]:
    """The modes to measure: a hosted model, which costs time and money a query, is asked for a corpus's own queries only."""
    return ("bm25",) if kind == "known_items" and provider in HOSTED_PROVIDERS else MODES


def open_candidate(store: CorpusStore, manifest: Manifest, embedder: Embedder) -> Index:
    """An index over what a manifest names that was not published: nothing is written or tagged for it."""
    from rag_pipeline.query.snapshot_reader import SnapshotReader

    return Index(SnapshotReader(store, manifest, DEFAULT_MEMORY_BUDGET, embedder), pinned=True, expect=None)


def measured(store: CorpusStore, index: Index, queries: QuerySet | None) -> Results:
    """What an index finds: as it was stored when it was evaluated, or else found out now. Nothing is written.

    Args:
        queries: None asks the known items of the index.
    """
    kind: Kind = queries.kind if queries is not None else "known_items"
    stored = read_results(store, index.manifest.hash, kind, queries.hash if queries is not None else None)
    if stored is not None:
        return stored
    if queries is None:
        queries = known_items(open_vector_table(store, index.manifest))
    return ask(index, queries, modes_of(kind, index.manifest.content.embedder.provider))


def ask(
    index: Index,
    queries: QuerySet,
    modes: Sequence[Mode] = MODES,
    also: QuerySet | None = None,
    advance: Callable[[int], None] | None = None,
) -> Results:
    """Ask every query in every mode, and judge what is found.

    Args:
        also: queries that are asked too and do not count, for a comparison with where they come from.
        advance: hears of queries that were asked.
    """
    asked = {name: (text, queries.qrels[name], True) for name, text in queries.queries.items()}
    if also is not None:
        asked |= {name: (text, also.qrels[name], False) for name, text in also.queries.items() if name not in asked}
    results = {}
    for mode in modes:
        judged = []
        for name, (text, grades, counted) in asked.items():
            if queries.kind == "known_items":
                ranked = list(dict.fromkeys(index.document_ids(text, _KNOWN_ITEM_CHUNKS, mode)))
            else:
                ranked = ranked_documents(index, text, mode, EVALUATED_DOCUMENTS)
            judged.append(query_result(name, text, grades, ranked, counted))
            if advance is not None:
                advance(1)
        results[str(mode)] = tuple(judged)
    return Results(content=index.manifest.hash, kind=queries.kind, query_set=queries.hash, modes=results)


def ranked_documents(index: Index, text: str, mode: Mode, count: int) -> list[str]:
    """The documents of the hits, each at the place of its best chunk.

    Long documents may fill a list with their chunks, so that more chunks are asked for until there are enough documents.
    """
    wanted = _FIRST_CHUNKS
    while True:
        found = index.document_ids(text, k=wanted, mode=mode)
        documents = list(dict.fromkeys(found))
        if len(documents) >= count or len(found) < wanted:
            return documents[:count]
        wanted *= 4
