"""What both arms say to one query."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_pipeline.query.ranking import Floats, Ints, Ranking


class Asked(NamedTuple):
    """What the arms gave, and what they were asked with.

    ``is_name`` tells that the query is one name, see :meth:`Analyzer.is_name`. ``query`` is its vector. ``matches`` are all
    rows with a query term, and their scores.
    """

    arms: dict[str, Ranking]
    terms: list[str]
    is_name: bool
    query: npt.NDArray[np.float32] | None
    matches: tuple[Ints, Floats] | None

    def rows(self) -> Ints:
        """The rows that any arm ranks, ascending."""
        return np.unique(np.concatenate([arm.rows for arm in self.arms.values()]))

    def bm25_of(self, rows: Ints) -> Floats:
        """BM25's scores of some rows, 0 for one without a query term."""
        if self.matches is None or not len(self.matches[0]):
            return np.zeros(len(rows))
        matched, scores = self.matches
        order = np.argsort(matched)
        at = np.minimum(np.searchsorted(matched[order], rows), len(matched) - 1)
        return np.where(matched[order][at] == rows, scores[order][at], 0.0)
