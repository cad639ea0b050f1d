"""Asking an index what a query set asks, in every mode, from one look of each arm a query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rag_pipeline.config import EVALUATED_DOCUMENTS
from rag_pipeline.evaluation.query_set import Kind, QuerySet
from rag_pipeline.evaluation.results import QueryResult, Results, query_result, reranked_mode
from rag_pipeline.query import Index
from rag_pipeline.query.index import MODES, Mode
from rag_pipeline.query.ranking import Floats, Ints
from rag_pipeline.query.rankings import Rankings, folded

_FIRST_CHUNKS = 300
_KNOWN_ITEM_CHUNKS = 100
"""How many chunks a known item looks at. What a query set is good for asks for 100 documents; a guard may be cheap."""
_SHORT_LIST = 100
"""As deep as searches for a few hits look, and deeper than rerankers do unless the corpus says so."""


class AskedQuery(NamedTuple):
    """A query and its judgements; one that does not count is asked only to compare with where it comes from."""

    name: str
    text: str
    grades: dict[str, int]
    counted: bool

    @property
    def relevant(self) -> list[str]:
        return [document for document, grade in self.grades.items() if grade > 0]

    @property
    def relevant_grades(self) -> list[int]:
        return [grade for grade in self.grades.values() if grade > 0]

    def judged(self, hits: Sequence[tuple[str, ...]]) -> QueryResult:
        """What a list of hits is worth, each of which stands for some documents."""
        ranked = folded(hits, self.relevant)[:EVALUATED_DOCUMENTS]
        return query_result(self.name, self.text, self.grades, ranked, self.counted)

    def placed(self, ranks: Ints) -> QueryResult:
        """What a list is worth that has the relevant documents at these ranks, from 1, and 0 for one that it lacks."""
        places = zip(ranks.tolist(), self.relevant, strict=True)
        found = sorted((rank, document) for rank, document in places if 0 < rank <= EVALUATED_DOCUMENTS)
        return QueryResult(
            query_id=self.name,
            text=self.text,
            grades=dict(self.grades),
            counted=self.counted,
            found=tuple(document for _, document in found),
            ranks=tuple(rank for rank, _ in found),
        )


class WeightedResults(NamedTuple):
    """Hybrid searches under many weights of BM25.

    ``queries`` are what was asked, and ``ranks`` has for each the ranks of its relevant documents, as in
    :meth:`AskedQuery.placed`, of shape ``(weights, relevant)``.
    """

    bm25_weights: Floats
    queries: list[AskedQuery]
    ranks: list[Ints]

    def under(self, number: int) -> tuple[QueryResult, ...]:
        """The results under the weight with this number."""
        return tuple(asked.placed(ranks[number]) for asked, ranks in zip(self.queries, self.ranks, strict=True))


def ask(
    index: Index,
    queries: QuerySet,
    modes: Sequence[Mode] = MODES,
    also: QuerySet | None = None,
    advance: Callable[[int], None] | None = None,
    rerankers: Sequence[str] = (),
) -> Results:
    """Ask every query in every mode, and judge what is found.

    Args:
        also: queries that are asked too and do not count, for a comparison with where they come from.
        advance: hears of searches that were made.
        rerankers: each ranks hybrid searches anew, in a mode of its own, see :func:`results.reranked_mode`.
    """
    results: dict[str, list[QueryResult]] = {str(mode): [] for mode in modes}
    results |= {reranked_mode(name): [] for name in rerankers}
    looks: Sequence[Mode] = (*modes, "hybrid") if rerankers and "hybrid" not in modes else modes
    for asked in _asked(queries, also):
        rankings = _rankings(index, queries.kind, asked.text, looks)
        for mode in modes:
            results[mode].append(asked.placed(rankings.document_ranks(mode, asked.relevant)[0]))
        for name in rerankers:
            # Behind what the reranker looked at, its list is the fused one.
            first = index.hit_documents(asked.text, _SHORT_LIST, "hybrid", name)
            results[reranked_mode(name)].append(asked.judged([*first, *rankings.hits("hybrid")]))
        if advance is not None:
            advance(len(results))
    found = {mode: tuple(judged) for mode, judged in results.items()}
    return Results(content=index.manifest.hash, kind=queries.kind, query_set=queries.hash, modes=found)


def ask_weighted(
    index: Index, queries: QuerySet, bm25_weights: Floats, advance: Callable[[int], None] | None = None
) -> tuple[Results, WeightedResults]:
    """:func:`ask` in all modes but `hybrid`, and hybrid searches under each of many weights, from one look of each arm."""
    others: tuple[Mode, ...] = tuple(mode for mode in MODES if mode != "hybrid")
    results: dict[str, list[QueryResult]] = {mode: [] for mode in others}
    weighted = WeightedResults(bm25_weights, [], [])
    for asked in _asked(queries, None):
        rankings = _rankings(index, queries.kind, asked.text, MODES, bm25_weights)
        for mode in others:
            results[mode].append(asked.placed(rankings.document_ranks(mode, asked.relevant)[0]))
        weighted.queries.append(asked)
        weighted.ranks.append(rankings.document_ranks("hybrid", asked.relevant))
        if advance is not None:
            advance(len(MODES))
    found = {mode: tuple(judged) for mode, judged in results.items()}
    return Results(content=index.manifest.hash, kind=queries.kind, query_set=queries.hash, modes=found), weighted


def _asked(queries: QuerySet, also: QuerySet | None) -> Iterator[AskedQuery]:
    for name, text in queries.queries.items():
        yield AskedQuery(name, text, queries.qrels[name], counted=True)
    if also is not None:
        for name, text in also.queries.items():
            if name not in queries.queries:
                yield AskedQuery(name, text, also.qrels[name], counted=False)


def _rankings(index: Index, kind: Kind, text: str, modes: Sequence[Mode], bm25_weights: Floats | None = None) -> Rankings:
    """Long documents may fill a list with their chunks, so that arms are looked through until there are enough documents."""
    depth = _KNOWN_ITEM_CHUNKS if kind == "known_items" else _FIRST_CHUNKS
    while True:
        rankings = index.rankings(text, modes, depth, bm25_weights)
        if kind == "known_items" or not rankings.cut or rankings.fewest_documents() >= EVALUATED_DOCUMENTS:
            return rankings
        depth *= 4
