"""What a hit shows: the chunk that was found or the parent it lies in, and what stands around it in its document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_pipeline.contracts import Passage
from rag_pipeline.lance import damage_as_store_error
from rag_pipeline.query.hits import HitColumns
from rag_pipeline.query.ranking import Ints

_POSITIONS = 1 << 32
"""More than the chunks that a document can have."""


class Around(NamedTuple):
    """The passages before and after a hit, each in the order of the document."""

    before: tuple[Passage, ...]
    after: tuple[Passage, ...]


class _Places(NamedTuple):
    """Where rows lie.

    ``shown`` is for each row the row whose passage is shown for it: itself, or the first chunk of its parent. ``order``
    are the rows that are shown for any, document by document; ``place`` is for each row where its shown one is in it.
    """

    shown: Ints
    order: Ints
    place: Ints
    documents: Ints


class Passages:
    """Passages of one snapshot.

    Args:
        table: a handle checked out at the snapshot's version.
        row_ids: LanceDB's id of each row.
        columns: the hit columns of rows.
        parents: whether chunks have parents, which are shown for them.
    """

    def __init__(self, table: Any, row_ids: npt.NDArray[np.uint64], columns: HitColumns, parents: bool) -> None:
        self._table = table
        self._row_ids = row_ids
        self._columns = columns
        self._parents = parents

    def rows(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """The hit columns of rows. Where there are parents, text and span are the parent's, and ``matched`` is the chunk."""
        if not self._parents:
            return self._columns.rows(numbers)
        shown = self._places.shown[np.asarray(numbers, dtype=np.int64)].tolist()
        values = self._values([*numbers, *shown])
        return [
            {
                **values[number],
                **self._passage(values[row]).model_dump(exclude={"chunk_id"}),
                "matched": _chunk(values[number]),
            }
            for number, row in zip(numbers, shown, strict=True)
        ]

    def around(self, numbers: Sequence[int], count: int) -> list[Around]:
        """Up to ``count`` passages before and after what is shown for each row; text that overlaps stands once."""
        places = self._places
        found: list[tuple[int, list[int], list[int]]] = []
        for number in numbers:
            place, document = int(places.place[number]), places.documents[number]
            near = places.order[max(place - count, 0) : place + count + 1]
            near = near[places.documents[near] == document]
            shown = int(places.shown[number])
            at = int(np.flatnonzero(near == shown)[0])
            found.append((shown, near[:at].tolist(), near[at + 1 :].tolist()))
        values = self._values([row for shown, before, after in found for row in (shown, *before, *after)])
        passages = {row: self._passage(one) for row, one in values.items()}
        return [
            Around(
                before=tuple(_before(passages[shown].start, [passages[row] for row in before])),
                after=tuple(_after(passages[shown].end, [passages[row] for row in after])),
            )
            for shown, before, after in found
        ]

    def _values(self, numbers: Sequence[int]) -> dict[int, dict[str, Any]]:
        distinct = list(dict.fromkeys(numbers))
        return dict(zip(distinct, self._columns.rows(distinct), strict=True))

    def _passage(self, values: dict[str, Any]) -> Passage:
        if not self._parents:
            return _chunk(values)
        return Passage(
            chunk_id=values["chunk_id"],
            start=values["parent_start"],
            end=values["parent_end"],
            text=values["parent_text"],
        )

    @cached_property
    def _places(self) -> _Places:
        """Read by the first call that needs it: searches without parents and neighbours do not."""
        names = ["document_id", "position", *(["parent_position"] if self._parents else [])]
        with damage_as_store_error(self._table.name):
            loaded = self._table.search().select(names).with_row_id(True).to_arrow()
        ids = loaded["_rowid"].to_numpy()
        by_id = np.argsort(ids)
        loaded = loaded.take(pa.array(by_id[np.searchsorted(ids[by_id], self._row_ids)]))
        documents = pc.dictionary_encode(loaded["document_id"].combine_chunks()).indices.to_numpy().astype(np.int64)
        keys = documents * _POSITIONS + loaded["position"].to_numpy()
        order = np.argsort(keys)
        shown = np.arange(len(keys))
        if self._parents:
            parents = documents * _POSITIONS + loaded["parent_position"].to_numpy()
            shown = order[np.searchsorted(keys[order], parents)]
            order = order[shown[order] == order]
        return _Places(shown, order, np.searchsorted(keys[order], keys[shown]), documents)


def _chunk(values: dict[str, Any]) -> Passage:
    return Passage(chunk_id=values["chunk_id"], start=values["start"], end=values["end"], text=values["text"])


def _before(limit: int, passages: Sequence[Passage]) -> Iterator[Passage]:
    """Passages in order, each without what lies at or behind the start of the next one."""
    cut: list[Passage] = []
    for passage in reversed(passages):
        if passage.end > limit:
            text = passage.text[: max(limit - passage.start, 0)].rstrip()
            passage = passage.model_copy(update={"text": text, "end": passage.start + len(text)})
        if passage.text:
            cut.append(passage)
        limit = min(limit, passage.start)
    return reversed(cut)


def _after(limit: int, passages: Sequence[Passage]) -> Iterator[Passage]:
    """Passages in order, each without what lies before the end of the one before it."""
    for passage in passages:
        end = passage.end
        if passage.start < limit:
            text = passage.text[limit - passage.start :].lstrip()
            passage = passage.model_copy(update={"text": text, "start": end - len(text)})
        if passage.text:
            yield passage
        limit = max(limit, end)
