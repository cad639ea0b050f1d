"""The best of the fused candidates in a reranker's order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from rag_pipeline.config import RetrievalConfig
from rag_pipeline.errors import RagPipelineError
from rag_pipeline.query.fusion import Fused
from rag_pipeline.query.ranking import Floats
from rag_pipeline.reranking import reranker_for

_log = logging.getLogger("rag_pipeline.query")

_DECIMALS = 6
"""As for the arms: what differs by less is a tie, which keeps fusion's order."""


class Reranked(NamedTuple):
    """One result: its place and score before, the reranker's score (None where it was not asked), and the one it has now."""

    found: Fused
    rank_before: int
    given: float | None
    score: float


class Reranking(NamedTuple):
    """Results in their new order; ``failure`` says why it is still the old one."""

    results: list[Reranked]
    reranker: str | None = None
    weight: float = 1.0
    failure: str | None = None


def as_fused(results: Sequence[Fused]) -> Reranking:
    """What a search without a reranker gives."""
    return Reranking([Reranked(found, rank, None, found.score) for rank, found in enumerate(results, 1)])


def rerank(
    text: str, fused: Sequence[Fused], texts: Callable[[list[int]], list[str]], settings: RetrievalConfig, k: int
) -> Reranking:
    """The best ``k``: the first ``settings.rerank_candidates`` in the reranker's order, then the others in fusion's.

    With a weight below 1, both scores are stretched to 0..1 over the candidates and summed by weight.

    Args:
        texts: gives the texts of rows.

    Raises:
        RagPipelineError: the reranker fails, and ``settings.rerank_on_failure`` is ``error``.
    """
    before = as_fused(fused)
    candidates = before.results[: settings.rerank_candidates]
    if not candidates:
        return before
    try:
        reranker = reranker_for(settings)
        given = reranker.scores(text, texts([one.found.row for one in candidates]))
    except RagPipelineError as error:
        if settings.rerank_on_failure == "error":
            raise
        _log.warning("reranker %s failed, the hits stand in fused order: %s", settings.rerank, error)
        return Reranking(before.results[:k], settings.rerank, failure=str(error))
    weight = reranker.weight if settings.rerank_weight is None else settings.rerank_weight
    scores = combined(given, np.array([one.score for one in candidates]), weight)
    # A stable sort: candidates that tie keep their order.
    order = np.argsort(-np.round(scores, _DECIMALS), kind="stable").tolist()
    first = [candidates[at]._replace(given=float(given[at]), score=float(scores[at])) for at in order]
    return Reranking([*first, *before.results[len(first) :]][:k], reranker.name, weight)


def combined(given: Floats, fused: Floats, weight: float) -> Floats:
    """The reranker's scores as they are for weight 1, else ``weight * given + (1 - weight) * fused``, each in 0..1."""
    if weight == 1.0:
        return given
    return weight * _stretched(given) + (1.0 - weight) * _stretched(fused)


def _stretched(scores: Floats) -> Floats:
    least, greatest = float(scores.min()), float(scores.max())
    return (scores - least) / (greatest - least) if greatest > least else np.ones_like(scores)
