"""Figures of one ranked list of documents against graded judgements, as trec_eval defines them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def ndcg(ranked: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """Normalised discounted cumulative gain at ``k``: gains are the grades, discounted by log2(rank + 1).

    Järvelin, Kekäläinen: Cumulated gain-based evaluation of IR techniques, TOIS 2002. The ideal ranking is made of all
    judged documents, found or not.
    """
    gain = sum(max(grades.get(document, 0), 0) / math.log2(rank + 1) for rank, document in enumerate(ranked[:k], 1))
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:k]
    best = sum(grade / math.log2(rank + 1) for rank, grade in enumerate(ideal, 1))
    return gain / best if best else 0.0


def recall(ranked: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """The part of the relevant documents that is among the first ``k``."""
    relevant = {document for document, grade in grades.items() if grade > 0}
    return len(relevant & set(ranked[:k])) / len(relevant) if relevant else 0.0


def reciprocal_rank(ranked: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """One over the rank of the first relevant document, 0 when none is among the first ``k``."""
    for rank, document in enumerate(ranked[:k], 1):
        if grades.get(document, 0) > 0:
            return 1.0 / rank
    return 0.0
