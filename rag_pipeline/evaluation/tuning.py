"""The weight of BM25 in hybrid searches, chosen by a corpus's own queries.

One half of the queries chooses, the other half tells what the choice is worth. Which half a query belongs to follows from
its id alone, so that the same query set gives the same weight on every machine, and a query that is added moves no other.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rag_pipeline.contracts import TunedFusion
from rag_pipeline.evaluation.asking import WeightedResults, ask_weighted
from rag_pipeline.evaluation.metrics import ndcg_of_ranks
from rag_pipeline.evaluation.query_set import QuerySet
from rag_pipeline.evaluation.results import Results
from rag_pipeline.hashing import text_hash
from rag_pipeline.query import Index
from rag_pipeline.query.ranking import Floats

FEWEST_QUERIES = 20
"""Each half needs so many. With fewer, noise moves the weight more often than need does."""
QUERIES_OF_THE_DEFAULT = 100
"""The default counts as if so many queries had chosen it: few queries move the weight a little, many all the way. Measured
by drawing 10 to 400 queries of 26 collections (docs/adr/0020-fusion-auto.md)."""

_FIRST = 10
_STEPS = 20
_DECIMALS = 6
"""Means that differ by less are the same: the rest is the noise of a machine's floating point."""


def ask_and_tune(
    index: Index, queries: QuerySet, advance: Callable[[int], None] | None = None
) -> tuple[Results, TunedFusion | None]:
    """The results of a query set in all modes, hybrid searches under the weight that the queries choose.

    Args:
        index: fuses by a weighted sum; the weight it has now is the default.

    Returns:
        The results, and the choice: None where there are too few queries, and the default holds.
    """
    default = index.fusion.bm25_weight
    if default is None:
        raise ValueError(f"expected an index that sums by weight, this one fuses by {index.fusion.method}")
    weights = weights_to_try(default)
    others, weighted = ask_weighted(index, queries, weights, advance)
    fusion = tuned(weighted, default, queries.hash)
    chosen = fusion.bm25_weight if fusion is not None else default
    hybrid = weighted.under(int(np.argmin(np.abs(weights - chosen))))
    return others.model_copy(update={"modes": {"hybrid": hybrid, **others.modes}}), fusion


def weights_to_try(default: float) -> Floats:
    """Every 0.05 from 0 to 1, and the default."""
    return np.union1d(np.round(np.linspace(0.0, 1.0, _STEPS + 1), 2), [default])


def tuned(weighted: WeightedResults, default: float, query_set: str) -> TunedFusion | None:
    """The weight that the queries choose, on the way from the default to the best one of the first half.

    The way is gone as far as the number of queries allows, and not at all where the other half is the worse for it.

    Args:
        weighted: results under :func:`weights_to_try`.
        query_set: the hash of the queries.

    Returns:
        None where there are too few queries.
    """
    chooses = np.array([_chooses(asked.name) for asked in weighted.queries], dtype=np.bool_)
    count = int(chooses.sum())
    if min(count, len(chooses) - count) < FEWEST_QUERIES:
        return None
    pairs = zip(weighted.queries, weighted.ranks, strict=True)
    values = np.stack([ndcg_of_ranks(ranks, asked.relevant_grades, _FIRST) for asked, ranks in pairs])
    weights = weighted.bm25_weights
    first, second = np.round(values[chooses].mean(axis=0), _DECIMALS), np.round(values[~chooses].mean(axis=0), _DECIMALS)
    at_default = int(np.argmin(np.abs(weights - default)))
    best = weights[first == first.max()]
    best_weight = float(best[np.argmin(np.abs(best - default))])
    wanted = default + (best_weight - default) * count / (count + QUERIES_OF_THE_DEFAULT)
    chosen = int(np.argmin(np.abs(weights - wanted)))
    if second[chosen] < second[at_default]:
        chosen = at_default
    return TunedFusion(
        bm25_weight=float(weights[chosen]),
        default_weight=default,
        metric=f"ndcg@{_FIRST}",
        query_set=query_set,
        tuned_on=count,
        reported_on=len(chooses) - count,
        default_figure=float(second[at_default]),
        tuned_figure=float(second[chosen]),
    )


def _chooses(query_id: str) -> bool:
    return int(text_hash(query_id)[-1], 16) % 2 == 0
