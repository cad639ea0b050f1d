"""Whether two snapshots answer the same queries differently, or whether chance does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rag_pipeline.contracts import Contract

_PERMUTATIONS = 10_000
_SEED = 20_070_611
_SIGNS_AT_ONCE = 2**22


class Comparison(Contract):
    """Means of one metric over the same queries, before and after; ``p_value`` is two-sided."""

    queries: int
    before: float
    after: float
    difference: float
    better: int
    worse: int
    p_value: float


def compare_paired(before: Sequence[float], after: Sequence[float]) -> Comparison:
    """Fisher's paired randomisation test of the difference of two means.

    Where both snapshots were alike, each query's two figures could as well be swapped: the p-value is the part of random
    swaps that give a difference as large as the one seen. Recommended for retrieval by Smucker, Allan and Carterette: A
    comparison of statistical significance tests for information retrieval evaluation, CIKM 2007. The one that was seen
    counts as a permutation itself (Phipson, Smyth, Statistical Applications in Genetics and Molecular Biology 9, 2010),
    so that no p-value is 0. The seed is fixed: the same figures give the same p-value.

    Args:
        before: a figure a query.
        after: the figures of the same queries, in the same order.
    """
    old, new = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    if old.shape != new.shape:
        raise ValueError(f"expected figures of the same queries, got {len(old)} and {len(new)}")
    differences = new - old
    return Comparison(
        queries=len(old),
        before=float(old.mean()) if len(old) else 0.0,
        after=float(new.mean()) if len(new) else 0.0,
        difference=float(differences.mean()) if len(old) else 0.0,
        better=int((differences > 0).sum()),
        worse=int((differences < 0).sum()),
        p_value=_p_value(differences[differences != 0]),
    )


def _p_value(differences: npt.NDArray[np.float64]) -> float:
    """Queries without a difference change no sum and are left out."""
    if not len(differences):
        return 1.0
    chance = np.random.default_rng(_SEED)
    seen = abs(float(differences.sum()))
    rows = max(1, _SIGNS_AT_ONCE // len(differences))
    as_large = 0
    for start in range(0, _PERMUTATIONS, rows):
        count = min(rows, _PERMUTATIONS - start)
        swapped = chance.integers(0, 2, size=(count, len(differences)), dtype=np.int8).astype(np.float64) * 2 - 1
        # What differs by rounding alone is as large.
        as_large += int((np.abs(swapped @ differences) >= seen - 1e-12).sum())
    return (as_large + 1) / (_PERMUTATIONS + 1)
