"""The rankings of one text in all modes, and under many weights, from one look of each arm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rag_pipeline.query.explanation import AppliedFusion
from rag_pipeline.query.fusion import Candidates, Fused, best_of_each, convex_places
from rag_pipeline.query.ranking import Floats, Ints, Ranking, TextGroups

ABSENT = int(np.iinfo(np.int64).max)
"""The place of a row that is not in a list."""


class Rankings(NamedTuple):
    """Chunks and where they stand.

    ``documents`` are those of the chunks, shape ``(n,)``. ``places`` are the chunks' places by mode, from 0, of shape
    ``(lists, n)``: one list, for `hybrid` one a weight. ``cut`` tells that a deeper look would find more.
    """

    documents: Sequence[str]
    places: dict[str, Ints]
    cut: bool

    def document_ranks(self, mode: str, documents: Sequence[str]) -> Ints:
        """The rank of some documents, from 1, each at the place of its best chunk; 0 where it is not in the list.

        Returns:
            Shape ``(lists, len(documents))``.
        """
        places = self.places[mode]
        codes: dict[str, int] = {}
        of_chunk = np.array([codes.setdefault(name, len(codes)) for name in self.documents], dtype=np.int64)
        ranks = np.zeros((len(places), len(documents)), dtype=np.int64)
        there = [number for number, name in enumerate(documents) if name in codes]
        if not there:
            return ranks
        _, one_chunk = np.unique(of_chunk, return_index=True)
        best = best_of_each(places, of_chunk)[:, one_chunk]
        wanted = best[:, [codes[documents[number]] for number in there]]
        before = (best[:, None, :] < wanted[:, :, None]).sum(axis=2)
        ranks[:, there] = np.where(wanted < ABSENT, before + 1, 0)
        return ranks

    def ordered(self, mode: str) -> list[str]:
        """The documents in the first list of a mode, each at the place of its best chunk."""
        places = self.places[mode][0]
        return list(dict.fromkeys(self.documents[at] for at in np.argsort(places).tolist() if places[at] < ABSENT))

    def fewest_documents(self) -> int:
        """How many documents the shortest list has."""
        return min((len(self.ordered(mode)) for mode in self.places), default=0)


def arm_places(rows: Ints, arm: Ranking) -> Ints:
    """The places in an arm of rows that are in ascending order."""
    places = np.full((1, len(rows)), ABSENT)
    places[0, np.searchsorted(rows, arm.rows)] = np.arange(len(arm.rows))
    return places


def fused_places(rows: Ints, results: Sequence[Fused]) -> Ints:
    """The places in one fused list."""
    places = np.full((1, len(rows)), ABSENT)
    places[0, np.searchsorted(rows, np.array([one.row for one in results], dtype=np.int64))] = np.arange(len(results))
    return places


def weighted_places(
    rows: Ints, candidates: Candidates, bm25_weights: Floats, fusion: AppliedFusion, groups: TextGroups
) -> Ints:
    """The places under each weight of rows among which the candidates are."""
    places = np.full((len(bm25_weights), len(rows)), ABSENT)
    found = convex_places(candidates, bm25_weights, fusion, groups)
    places[:, np.searchsorted(rows, candidates.rows)] = np.where(found < len(candidates.rows), found, ABSENT)
    return places


def continued(first: Ints, deeper: Ints, codes: Ints) -> Ints:
    """A list, and behind it what only a deeper look has: the beginning is what a search for few results gives.

    Args:
        codes: the text of each row; one that the list shows already is not shown again.
    """
    shown = best_of_each(first, codes) < ABSENT
    behind = np.where((deeper < ABSENT) & ~shown, len(codes) + np.minimum(deeper, len(codes)), ABSENT)
    return np.where(first < ABSENT, first, behind)
