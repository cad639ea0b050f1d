"""Figures of one ranked list of documents against graded judgements, as trec_eval defines them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

SHOWN_METRICS = ("ndcg@10", "recall@10", "recall@100", "precision@10", "mrr@10", "map@100")
"""The metrics that every evaluation reports."""

Ranked: TypeAlias = Sequence[str]
Grades: TypeAlias = Mapping[str, int]


def figure(name: str, ranked: Ranked, grades: Grades) -> float:
    """A metric by its name, such as ``ndcg@10``; the names are those of :data:`rag_pipeline.config.METRICS`."""
    metric, _, cut = name.partition("@")
    return _METRICS[metric](ranked, grades, int(cut))


def ndcg(ranked: Ranked, grades: Grades, k: int) -> float:
    """Normalised discounted cumulative gain at ``k``: gains are the grades, discounted by log2(rank + 1).

    Järvelin, Kekäläinen: Cumulated gain-based evaluation of IR techniques, TOIS 2002. The ideal ranking is made of all
    judged documents, found or not.
    """
    gain = sum(max(grades.get(document, 0), 0) / math.log2(rank + 1) for rank, document in enumerate(ranked[:k], 1))
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:k]
    best = sum(grade / math.log2(rank + 1) for rank, grade in enumerate(ideal, 1))
    return gain / best if best else 0.0


def ndcg_of_ranks(ranks: npt.NDArray[np.int64], grades: Sequence[int], k: int) -> npt.NDArray[np.float64]:
    """:func:`ndcg` of many lists at once.

    Args:
        ranks: the ranks, from 1, of the relevant documents in each list, 0 where they are not in it; shape
            ``(lists, documents)``.
        grades: of these documents.
    """
    ideal = sum(grade / math.log2(rank + 1) for rank, grade in enumerate(sorted(grades, reverse=True)[:k], 1))
    seen = (ranks > 0) & (ranks <= k)
    gains = np.where(seen, np.array(grades) / np.log2(np.maximum(ranks, 1) + 1), 0.0)
    found: npt.NDArray[np.float64] = gains.sum(axis=1) / ideal
    return found


def recall(ranked: Ranked, grades: Grades, k: int) -> float:
    """The part of the relevant documents that is among the first ``k``."""
    relevant = _relevant(grades)
    return len(relevant & set(ranked[:k])) / len(relevant) if relevant else 0.0


def precision(ranked: Ranked, grades: Grades, k: int) -> float:
    """The part of the first ``k`` places that holds a relevant document; a shorter list is filled up with others."""
    return len(_relevant(grades) & set(ranked[:k])) / k


def reciprocal_rank(ranked: Ranked, grades: Grades, k: int) -> float:
    """One over the rank of the first relevant document, 0 when none is among the first ``k``."""
    for rank, document in enumerate(ranked[:k], 1):
        if grades.get(document, 0) > 0:
            return 1.0 / rank
    return 0.0


def average_precision(ranked: Ranked, grades: Grades, k: int) -> float:
    """The mean, over all relevant documents, of the precision at their ranks; 0 for one not among the first ``k``."""
    relevant, found, total = _relevant(grades), 0, 0.0
    for rank, document in enumerate(ranked[:k], 1):
        if document in relevant:
            found += 1
            total += found / rank
    return total / len(relevant) if relevant else 0.0


def _relevant(grades: Grades) -> set[str]:
    return {document for document, grade in grades.items() if grade > 0}


_METRICS: dict[str, Callable[[Ranked, Grades, int], float]] = {
    "ndcg": ndcg,
    "recall": recall,
    "precision": precision,
    "mrr": reciprocal_rank,
    "map": average_precision,
}
