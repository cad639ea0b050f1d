"""Two ranked lists become one."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from rag_pipeline.config import RetrievalConfig
from rag_pipeline.contracts import TunedFusion
from rag_pipeline.query.explanation import AppliedFusion
from rag_pipeline.query.ranking import Floats, Ints, Ranking, TextGroups, rounded

ARMS = ("vector", "bm25")


def fusion_of(retrieval: RetrievalConfig, tuned: TunedFusion | None) -> AppliedFusion:
    """How a snapshot's hybrid searches fuse.

    Args:
        retrieval: as its manifest holds it.
        tuned: what its own queries chose.
    """
    if retrieval.fusion == "rrf":
        return AppliedFusion(method="rrf", bm25_weight=None, origin="configured")
    if retrieval.fusion == "auto" and tuned is not None:
        return AppliedFusion(method="convex", bm25_weight=tuned.bm25_weight, origin="tuned")
    origin: Literal["configured", "default"] = "default" if retrieval.fusion == "auto" else "configured"
    return AppliedFusion(method="convex", bm25_weight=retrieval.bm25_weight, origin=origin)


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

    def parts(self) -> Floats:
        """Both arms' scores brought to 0..1, the dense arm's first, shape ``(2, len(rows))``."""
        dense = _stretched(self.cosine) if self.cosine is not None else np.zeros(len(self.rows))
        return np.stack([dense, _by_greatest(self.bm25)])


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
    parts = candidates.parts() * np.array([[1.0 - bm25_weight], [bm25_weight]])
    ranking = groups.best(candidates.rows, parts.sum(axis=0), count)
    places = [{code: rank for rank, code in enumerate(groups.codes[arm.rows].tolist(), 1)} for arm in arms]
    at = np.searchsorted(candidates.rows, ranking.rows)
    return [
        Fused(row, float(parts[:, index].sum()), tuple(ranks.get(code) for ranks in places), tuple(parts[:, index].tolist()))
        for row, index, code in zip(ranking.rows.tolist(), at.tolist(), groups.codes[ranking.rows].tolist(), strict=True)
    ]


def convex_places(candidates: Candidates, bm25_weights: Floats, groups: TextGroups) -> Ints:
    """The place of each candidate, from 0, in :func:`convex_combination` under each of many weights.

    Returns:
        Shape ``(len(bm25_weights), len(candidates.rows))``. A row whose text another row shows has the number of
        candidates for a place, which is behind every other.
    """
    rows = candidates.rows
    if not len(rows):
        return np.zeros((len(bm25_weights), 0), dtype=np.int64)
    # Brought into the order of ties first, a stable sort keeps it.
    by_tie = np.argsort(groups.tie_ranks[rows])
    dense, bm25 = candidates.parts()[:, by_tie]
    scores = np.outer(1.0 - bm25_weights, dense) + np.outer(bm25_weights, bm25)
    order = by_tie[np.argsort(-rounded(scores), axis=1, kind="stable")]
    places = np.empty_like(order)
    np.put_along_axis(places, order, np.arange(len(rows))[None, :], axis=1)
    first = best_of_each(places, groups.codes[rows])
    return np.where(places == first, places, len(rows))


def best_of_each(places: Ints, codes: Ints) -> Ints:
    """For each entry the least place among those of its row that share its code; shapes ``(n, m)`` and ``(m,)``."""
    by_code = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[by_code], prepend=-1))
    least = np.minimum.reduceat(places[:, by_code], starts, axis=1)
    found: Ints = least[:, np.searchsorted(codes[by_code][starts], codes)]
    return found


def _by_greatest(scores: Floats) -> Floats:
    """Scores whose least is 0 by nature, or below it by a rare idf, brought to 0..1."""
    least = min(float(scores.min()), 0.0)
    greatest = float(scores.max())
    return (scores - least) / (greatest - least) if greatest > least else np.zeros_like(scores)


def _stretched(scores: Floats) -> Floats:
    """Scores without a natural zero brought to 0..1. Where all are equal, all are as good as can be."""
    least, greatest = float(scores.min()), float(scores.max())
    return (scores - least) / (greatest - least) if greatest > least else np.ones_like(scores)
