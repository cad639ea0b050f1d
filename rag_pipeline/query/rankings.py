"""The rankings of one text in all modes, and under many weights, from one look of each arm."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_pipeline.query.explanation import AppliedFusion
from rag_pipeline.query.fusion import Candidates, Fused, best_of_each, convex_places
from rag_pipeline.query.ranking import Floats, Ints, Ranking, TextGroups

ABSENT = int(np.iinfo(np.int64).max)
"""The place of a row that is not in a list."""


class Rankings(NamedTuple):
    """Chunks and where they stand.

    ``documents`` are for each of ``n`` chunks those that hold its text, the one that is shown for it first: a hit stands
    for all of them. ``places`` are the chunks' places by mode, from 0, of shape ``(lists, n)``: one list, for `hybrid` one
    a weight. ``cut`` tells that a deeper look would find more.
    """

    documents: Sequence[tuple[str, ...]]
    places: dict[str, Ints]
    cut: bool

    def document_ranks(self, mode: str, documents: Sequence[str]) -> Ints:
        """The ranks, from 1, that :func:`folded` gives to some documents; 0 where one is not in the list.

        Args:
            documents: those that are wanted.

        Returns:
            Shape ``(lists, len(documents))``.
        """
        places = self.places[mode]
        if not len(self.documents) or not documents:
            return np.zeros((len(places), len(documents)), dtype=np.int64)
        number_of = {name: number for number, name in enumerate(documents)}
        holders = [[number_of[name] for name in names if name in number_of] for names in self.documents]
        wanted = np.full((len(places), len(documents)), ABSENT)
        for chunk, held in enumerate(holders):
            for number in held:
                wanted[:, number] = np.minimum(wanted[:, number], places[:, chunk])
        others = self._places_of_others(places, number_of, np.array([bool(held) for held in holders]))
        before = (others[:, None, :] < wanted[:, :, None]).sum(axis=2)
        earlier = np.tri(len(documents), k=-1, dtype=np.bool_)
        ahead = (wanted[:, None, :] < wanted[:, :, None]) | ((wanted[:, None, :] == wanted[:, :, None]) & earlier)
        ranks: Ints = np.where(wanted < ABSENT, before + ahead.sum(axis=2) + 1, 0)
        return ranks

    def _places_of_others(self, places: Ints, wanted: Collection[str], holds_wanted: npt.NDArray[np.bool_]) -> Ints:
        """The places of documents that are not wanted, shape ``(lists, documents)``; ABSENT for one whose first hit is
        shown for a wanted document's sake."""
        codes: dict[str, int] = {}
        of_chunk = np.array([codes.setdefault(names[0], len(codes)) for names in self.documents], dtype=np.int64)
        _, one_chunk = np.unique(of_chunk, return_index=True)
        first = best_of_each(places, of_chunk)[:, one_chunk]
        first_with_wanted = best_of_each(np.where(holds_wanted, places, ABSENT), of_chunk)[:, one_chunk]
        is_wanted = np.array([name in wanted for name in codes], dtype=np.bool_)
        return np.where(is_wanted | (first == first_with_wanted), ABSENT, first)

    def hits(self, mode: str) -> list[tuple[str, ...]]:
        """The documents of each chunk in the first list of a mode, in its order."""
        places = self.places[mode][0]
        return [self.documents[at] for at in np.argsort(places).tolist() if places[at] < ABSENT]

    def fewest_documents(self) -> int:
        """How many documents the shortest list has."""
        return min((len({names[0] for names in self.hits(mode)}) for mode in self.places), default=0)


def folded(hits: Iterable[tuple[str, ...]], wanted: Collection[str]) -> list[str]:
    """Hits as a list of documents, each at the place of its best hit.

    A hit that stands for several documents is one place, of the wanted one among them where there is one. Several that are
    wanted take a place each, in the order of ``wanted``.
    """
    ranked: dict[str, None] = {}
    covered: set[str] = set()
    for names in hits:
        found = [name for name in wanted if name in names and name not in ranked]
        ranked |= dict.fromkeys(found)
        if any(name in wanted for name in names):
            covered.add(names[0])
        elif names[0] not in covered:
            ranked.setdefault(names[0])
    return list(ranked)


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
