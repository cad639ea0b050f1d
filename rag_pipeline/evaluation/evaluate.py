"""How well an index answers a query set, mode by mode."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from rag_pipeline.config import HOSTED_PROVIDERS
from rag_pipeline.contracts import Contract, Manifest
from rag_pipeline.embedding import Embedder
from rag_pipeline.errors import LockedError
from rag_pipeline.evaluation.asking import ask
from rag_pipeline.evaluation.known_items import known_items
from rag_pipeline.evaluation.query_set import Kind, QuerySet
from rag_pipeline.evaluation.results import Results, read_results, reranked_mode, write_results
from rag_pipeline.index.lock import RefreshLock
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


def measured(store: CorpusStore, index: Index, queries: QuerySet | None, rerankers: Sequence[str] = ()) -> Results:
    """What an index finds: as it was stored when it was evaluated, or else found out now.

    What a reranker finds is kept, where nobody else writes to the corpus meanwhile: it may have cost money. Otherwise
    nothing is written.

    Args:
        queries: None asks the known items of the index.
        rerankers: are asked as well, by names that `Index.search` takes.

    Raises:
        QueryError: there is no such reranker.
        RerankingError, CredentialsError, ProviderError, MissingExtraError: a reranker fails.
    """
    kind: Kind = queries.kind if queries is not None else "known_items"
    query_set = queries.hash if queries is not None else None
    stored = read_results(store, index.manifest.hash, kind, query_set, rerankers)
    missing = [name for name in rerankers if stored is None or reranked_mode(name) not in stored.modes]
    if stored is not None and not missing:
        return stored
    if queries is None:
        queries = known_items(open_vector_table(store, index.manifest))
    modes = modes_of(kind, index.manifest.content.embedder.provider)
    results = stored if stored is not None else ask(index, queries, modes)
    if not missing:
        return results
    reranked = ask(index, queries, (), rerankers=missing)
    if stored is not None:
        _keep(store, reranked)
    return results.model_copy(update={"modes": {**results.modes, **reranked.modes}})


def _keep(store: CorpusStore, results: Results) -> None:
    try:
        lock = RefreshLock.acquire(store, None)
    except LockedError:
        return
    try:
        write_results(store, results)
    finally:
        lock.release()
