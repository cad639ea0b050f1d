"""From scores to ranked lists: identical text collapsed, ties broken the same way on every machine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_DECIMALS = 6
"""Scores are compared to this many decimals: the rest is the noise of a machine's floating point."""


class Ranking(NamedTuple):
    """The candidates of one arm, best first: a row for each distinct text, and its score."""

    rows: Ints
    scores: Floats


def rounded(scores: Floats) -> Floats:
    """Scores as they are compared: what differs by less is a tie."""
    return np.round(scores, _DECIMALS)


class TextGroups:
    """Which rows hold the same text, and in which order rows with equal scores stand.

    Args:
        codes: for each row a number that rows with identical text share.
        tie_ranks: for each row its place when rows are ordered by chunk id.
    """

    def __init__(self, codes: Ints, tie_ranks: Ints) -> None:
        self.codes = codes
        self.tie_ranks = tie_ranks
        self._by_code = np.argsort(codes, kind="stable")
        self._starts = np.searchsorted(codes[self._by_code], np.arange(int(codes.max(initial=-1)) + 2))

    def rows_like(self, row: int) -> Ints:
        """All rows with the same text as this one, itself among them."""
        code = int(self.codes[row])
        return self._by_code[self._starts[code] : self._starts[code + 1]]

    def shared(self, rows: Ints) -> Ints:
        """Which of some rows have a text that other rows hold as well, by their places in what was given."""
        codes = self.codes[rows]
        return np.flatnonzero(self._starts[codes + 1] - self._starts[codes] > 1)

    def best(self, rows: Ints, scores: Floats, count: int) -> Ranking:
        """The best ``count`` distinct texts among rows with scores, each by its best row."""
        scores = rounded(scores)
        wanted = count
        while True:
            wanted = min(2 * wanted, len(rows))
            if wanted < len(rows):
                # Everything that ties with the last one is kept, so that the cut does not depend on the order of rows.
                threshold = np.partition(scores, len(scores) - wanted)[len(scores) - wanted]
                kept = np.flatnonzero(scores >= threshold)
            else:
                kept = np.arange(len(rows))
            order = kept[np.lexsort((self.tie_ranks[rows[kept]], -scores[kept]))]
            _, first = np.unique(self.codes[rows[order]], return_index=True)
            if len(first) >= count or wanted >= len(rows):
                chosen = order[np.sort(first)[:count]]
                return Ranking(rows[chosen], scores[chosen])
