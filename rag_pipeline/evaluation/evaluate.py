"""How well an index answers a query set, mode by mode."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from rag_pipeline.contracts import Contract
from rag_pipeline.evaluation.metrics import ndcg, recall, reciprocal_rank
from rag_pipeline.evaluation.query_set import QuerySet
from rag_pipeline.query import Index
from rag_pipeline.query.index import MODES, Mode

_DOCUMENTS = 100
_FIRST_CHUNKS = 300


class Figures(Contract):
    """Means over all judged queries; a query without any result counts with 0."""

    ndcg_at_10: float = Field(serialization_alias="ndcg@10")
    recall_at_100: float = Field(serialization_alias="recall@100")
    mrr_at_10: float = Field(serialization_alias="mrr@10")
    queries: int


class Evaluation(Contract):
    """The figures of one snapshot, by mode."""

    corpus: str
    snapshot: int
    modes: dict[str, Figures]


def evaluate(index: Index, queries: QuerySet, modes: Sequence[Mode] = MODES) -> Evaluation:
    """Ask every query in every mode."""
    figures = {}
    for mode in modes:
        rankings = {query: ranked_documents(index, text, mode, _DOCUMENTS) for query, text in queries.queries.items()}
        figures[mode] = _figures(rankings, queries)
    return Evaluation(corpus=index.corpus, snapshot=index.snapshot, modes=figures)


def ranked_documents(index: Index, text: str, mode: Mode, count: int) -> list[str]:
    """The documents of the hits, each at the place of its best chunk.

    Long documents may fill a list with their chunks, so that more chunks are asked for until there are enough documents.
    """
    wanted = _FIRST_CHUNKS
    while True:
        hits = index.search(text, k=wanted, mode=mode)
        documents = list(dict.fromkeys(hit.document_id for hit in hits))
        if len(documents) >= count or len(hits) < wanted:
            return documents[:count]
        wanted *= 4


def _figures(rankings: dict[str, list[str]], queries: QuerySet) -> Figures:
    judged = [(rankings[query], grades) for query, grades in queries.qrels.items()]
    count = len(judged)
    return Figures(
        ndcg_at_10=sum(ndcg(ranked, grades, 10) for ranked, grades in judged) / count,
        recall_at_100=sum(recall(ranked, grades, 100) for ranked, grades in judged) / count,
        mrr_at_10=sum(reciprocal_rank(ranked, grades, 10) for ranked, grades in judged) / count,
        queries=count,
    )
