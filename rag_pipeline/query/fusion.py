"""Two ranked lists become one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rag_pipeline.query.ranking import Floats, Ints, Ranking, TextGroups


class Fused(NamedTuple):
    """One result of a fusion: the row to show, the fused score, and what each arm added (0 where it had it not)."""

    row: int
    score: float
    ranks: tuple[int | None, ...]
    contributions: tuple[float, ...]


def reciprocal_rank_fusion(arms: list[Ranking], groups: TextGroups, k: int, count: int) -> list[Fused]:
    """Fuse rankings: a text scores the sum over arms of ``1 / (k + rank)``, ranks from 1.

    Cormack, Clarke, Buettcher: Reciprocal Rank Fusion, SIGIR 2009. A text that an arm does not have gets nothing from
    it. The row that is shown is the one of the arm that ranks the text best, the earlier arm where two agree.
    """
    ranks: dict[int, list[int | None]] = {}
    shown: dict[int, tuple[int, int]] = {}
    for number, arm in enumerate(arms):
        codes = groups.codes[arm.rows].tolist()
        for rank, (code, row) in enumerate(zip(codes, arm.rows.tolist(), strict=True), 1):
            ranks.setdefault(code, [None] * len(arms))[number] = rank
            if code not in shown or rank < shown[code][0]:
                shown[code] = (rank, row)
    rows = [shown[code][1] for code in ranks]
    parts = [tuple(1.0 / (k + rank) if rank is not None else 0.0 for rank in places) for places in ranks.values()]
    scores = [sum(one) for one in parts]
    order = np.lexsort((groups.tie_ranks[rows], -np.round(scores, 12)))[:count] if rows else ()
    places = list(ranks.values())
    return [Fused(rows[at], scores[at], tuple(places[at]), parts[at]) for at in order]


class Candidates(NamedTuple):
    """The rows that any arm ranked, with the scores of both arms for all of them, shape ``(len(rows),)``.

    ``bm25`` is 0 for a row without a query term; ``cosine`` is None when the query has no vector.
    """

    rows: Ints
    cosine: Floats | None
    bm25: Floats


def convex_combination(
    arms: list[Ranking], candidates: Candidates, bm25_weight: float, groups: TextGroups, count: int
) -> list[Fused]:
    """Fuse by scores: ``bm25_weight * bm25 / max(bm25) + (1 - bm25_weight) * minmax(cosine)`` over all candidates.

    Bruch, Gai, Ingber: An Analysis of Fusion Functions for Hybrid Retrieval, TOIS 2023. Unlike reciprocal ranks it keeps
    how much better a candidate is than the next: a page that holds the very sentence stays first.

    Args:
        arms: the dense ranking and the lexical one, for the ranks that are shown.
    """
    if not len(candidates.rows):
        return []
    dense = _stretched(candidates.cosine) if candidates.cosine is not None else np.zeros(len(candidates.rows))
    parts = np.stack([(1.0 - bm25_weight) * dense, bm25_weight * _by_greatest(candidates.bm25)])
    ranking = groups.best(candidates.rows, parts.sum(axis=0), count)
    places = [{code: rank for rank, code in enumerate(groups.codes[arm.rows].tolist(), 1)} for arm in arms]
    at = np.searchsorted(candidates.rows, ranking.rows)
    return [
        Fused(row, float(parts[:, index].sum()), tuple(ranks.get(code) for ranks in places), tuple(parts[:, index].tolist()))
        for row, index, code in zip(ranking.rows.tolist(), at.tolist(), groups.codes[ranking.rows].tolist(), strict=True)
    ]


def _by_greatest(scores: Floats) -> Floats:
    """Scores whose least is 0 by nature, or below it by a rare idf, brought to 0..1."""
    least = min(float(scores.min()), 0.0)
    greatest = float(scores.max())
    return (scores - least) / (greatest - least) if greatest > least else np.zeros_like(scores)


def _stretched(scores: Floats) -> Floats:
    """Scores without a natural zero brought to 0..1. Where all are equal, all are as good as can be."""
    least, greatest = float(scores.min()), float(scores.max())
    return (scores - least) / (greatest - least) if greatest > least else np.ones_like(scores)
