"""Two ranked lists become one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rag_pipeline.config import RetrievalConfig
from rag_pipeline.contracts import TunedFusion
from rag_pipeline.query.explanation import AppliedFusion
from rag_pipeline.query.ranking import Floats, Ints, Ranking, TextGroups, rounded

ARMS = ("vector", "bm25")

_STANDS_OUT_OF = 10
"""As many candidates as people look at: the first, and those that it stands out from. 5, 20 and 100 measure no better."""

_COVERED = 0.8
"""Up to this part of a query, what BM25's first holds of it says little: questions reach it, titles and names exceed it."""
_MOST_FOR_COVERAGE, _MOST_FOR_A_NAME = 2.0, 23.0

_DECIMALS = 12
"""What is less is the noise of floating point, and an arm whose scores are all the same."""


def fusion_of(retrieval: RetrievalConfig, tuned: TunedFusion | None) -> AppliedFusion:
    """How a snapshot's hybrid searches fuse.

    Args:
        retrieval: as its manifest holds it.
        tuned: what its own queries chose.
    """
    if retrieval.fusion == "rrf":
        return AppliedFusion(method="rrf", bm25_weight=None)
    if retrieval.fusion == "auto" and tuned is not None:
        return AppliedFusion(method="auto", bm25_weight=tuned.bm25_weight, tuned=True)
    return AppliedFusion(method=retrieval.fusion, bm25_weight=retrieval.bm25_weight)


class Fused(NamedTuple):
    """One result of a fusion: the row to show, the fused score, and what each arm added (0 where it had it not).

    ``bm25_weight`` is the share of BM25 in this query where scores are summed.
    """

    row: int
    score: float
    ranks: tuple[int | None, ...]
    contributions: tuple[float, ...]
    bm25_weight: float | None = None


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

    ``bm25`` is 0 for a row without a query term; ``cosine`` is None when the query has no vector. ``bm25_factor`` is what
    :func:`factor_of` gives.
    """

    rows: Ints
    cosine: Floats | None
    bm25: Floats
    bm25_factor: float = 1.0

    def parts(self) -> Floats:
        """Both arms' scores brought to 0..1, the dense arm's first, shape ``(2, len(rows))``."""
        dense = _stretched(self.cosine) if self.cosine is not None else np.zeros(len(self.rows))
        return np.stack([dense, _by_greatest(self.bm25)])


def factor_of(coverage: float, is_name: bool) -> float:
    """How much more BM25 counts for a query of which its first row holds nearly all, as it does of names and titles.

    What people who type those look for is where they stand. Up to three times as much, and up to 24 times where the query
    is one name such as ``Get-Item``: it stands in few places, and to a model it is much like ``New-Item``. Measured in
    docs/adr/0020-fusion-auto.md.

    Args:
        coverage: the part of the query that BM25's first row holds, see :meth:`PostingsBM25.coverage`.
        is_name: see :meth:`Analyzer.is_name`.
    """
    most = _MOST_FOR_A_NAME if is_name else _MOST_FOR_COVERAGE
    return 1.0 + most * max(coverage - _COVERED, 0.0) / (1.0 - _COVERED)


def query_weights(parts: Floats, bm25_factor: float, bm25_weights: Floats) -> Floats:
    """Weights of BM25 as they are for one query, which tells what either arm knows of it.

    An arm counts for more where its first stands out from its next nine: with ``s`` of an arm the square root of its
    greatest score less the mean of the next nine, ``w`` becomes ``w s_bm25 / (w s_bm25 + (1 - w) s_dense)``. One that knows
    nothing of a query (a model of another language, words that all texts share) has many candidates that are about as good
    as its first. Measured in docs/adr/0020-fusion-auto.md.

    Args:
        parts: what :meth:`Candidates.parts` gives.
        bm25_factor: what s_bm25 is multiplied by, see :func:`factor_of`.
    """
    first = np.sort(parts, axis=1)[:, : -_STANDS_OUT_OF - 1 : -1]
    rest = first[:, 1:].mean(axis=1) if first.shape[1] > 1 else np.zeros(len(parts))
    dense, bm25 = np.sqrt(np.maximum(np.round(first[:, 0] - rest, _DECIMALS), 0.0))
    bm25 *= bm25_factor
    total = bm25_weights * bm25 + (1.0 - bm25_weights) * dense
    known = total > 0
    weights: Floats = np.where(known, bm25_weights * bm25 / np.where(known, total, 1.0), bm25_weights)
    return weights


def convex_combination(
    arms: list[Ranking], candidates: Candidates, fusion: AppliedFusion, groups: TextGroups, count: int
) -> list[Fused]:
    """Fuse by scores: ``bm25_weight * bm25 / max(bm25) + (1 - bm25_weight) * minmax(cosine)`` over all candidates.

    Bruch, Gai, Ingber: An Analysis of Fusion Functions for Hybrid Retrieval, TOIS 2023. Unlike reciprocal ranks it keeps
    how much better a candidate is than the next: a page that holds the very sentence stays first.

    Args:
        arms: the dense ranking and the lexical one, for the ranks that are shown.
        fusion: the weight, and whether it is fitted to each query.
    """
    if not len(candidates.rows):
        return []
    parts = candidates.parts()
    (bm25_weight,) = _weights(parts, candidates, np.array([fusion.bm25_weight]), fusion).tolist()
    parts = parts * np.array([[1.0 - bm25_weight], [bm25_weight]])
    ranking = groups.best(candidates.rows, parts.sum(axis=0), count)
    places = [{code: rank for rank, code in enumerate(groups.codes[arm.rows].tolist(), 1)} for arm in arms]
    at = np.searchsorted(candidates.rows, ranking.rows)
    return [
        Fused(
            row,
            float(parts[:, index].sum()),
            tuple(ranks.get(code) for ranks in places),
            tuple(parts[:, index].tolist()),
            bm25_weight,
        )
        for row, index, code in zip(ranking.rows.tolist(), at.tolist(), groups.codes[ranking.rows].tolist(), strict=True)
    ]


def _weights(parts: Floats, candidates: Candidates, bm25_weights: Floats, fusion: AppliedFusion) -> Floats:
    return query_weights(parts, candidates.bm25_factor, bm25_weights) if fusion.method == "auto" else bm25_weights


def convex_places(candidates: Candidates, bm25_weights: Floats, fusion: AppliedFusion, groups: TextGroups) -> Ints:
    """The place of each candidate, from 0, in :func:`convex_combination` under each of many weights.

    Args:
        fusion: tells whether weights are fitted to the query; its own weight is not looked at.

    Returns:
        Shape ``(len(bm25_weights), len(candidates.rows))``. A row whose text another row shows has the number of
        candidates for a place, which is behind every other.
    """
    rows = candidates.rows
    if not len(rows):
        return np.zeros((len(bm25_weights), 0), dtype=np.int64)
    # Brought into the order of ties first, a stable sort keeps it.
    by_tie = np.argsort(groups.tie_ranks[rows])
    parts = candidates.parts()
    weights = _weights(parts, candidates, bm25_weights, fusion)
    dense, bm25 = parts[:, by_tie]
    scores = np.outer(1.0 - weights, dense) + np.outer(weights, bm25)
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
