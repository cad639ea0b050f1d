"""How well an index answers a query set, mode by mode."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from rag_pipeline.config import HOSTED_PROVIDERS
from rag_pipeline.contracts import Contract, Manifest
from rag_pipeline.embedding import Embedder
from rag_pipeline.evaluation.asking import ask
from rag_pipeline.evaluation.known_items import known_items
from rag_pipeline.evaluation.query_set import Kind, QuerySet
from rag_pipeline.evaluation.results import Results, read_results
from rag_pipeline.index.snapshot import open_vector_table
from rag_pipeline.index.store import CorpusStore
from rag_pipeline.query import Index
from rag_pipeline.query.index import DEFAULT_MEMORY_BUDGET, MODES, Mode


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


def evaluate(index: Index, queries: QuerySet, modes: Sequence[Mode] = MODES, rerankers: Sequence[str] = ()) -> Evaluation:
    """Ask every query in every mode, and hybrid searches once more under each reranker, as `Index.search` names them."""
    return summary(index, ask(index, queries, modes, rerankers=rerankers))


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
