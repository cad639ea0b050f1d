"""The columns that hits show, held in memory or read from the table for the few rows that need them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_pipeline.contracts import Hit
from rag_pipeline.index.vector_table import PARENT_COLUMNS

_COLUMNS = (
    "chunk_id", "document_id", "source", "title", "heading_path", "page", "start", "end", "text", "context", "metadata",
)  # fmt: skip


def hit_columns(schema: pa.Schema) -> list[str]:
    """The columns of a vector table that hits need."""
    return [*_COLUMNS, *(name for name in PARENT_COLUMNS if name in schema.names)]


class HitColumns(Protocol):
    """Gives the hit columns of rows by their numbers."""

    def rows(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """One mapping a row, in the order asked for; with the parent columns where chunks have parents."""
        ...

    def document_ids(self, numbers: Sequence[int]) -> list[str]:
        """The document of each row, in the order asked for."""
        ...


class MemoryColumns:
    """All hit columns in memory."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table.select(hit_columns(table.schema)).combine_chunks()

    def rows(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._table.take(pa.array(numbers, pa.int64())).to_pylist()
        return found

    def document_ids(self, numbers: Sequence[int]) -> list[str]:
        found: list[str] = self._table["document_id"].take(pa.array(numbers, pa.int64())).to_pylist()
        return found


class TableColumns:
    """Hit columns read from the table, checked out at the snapshot's version, for the rows asked for."""

    def __init__(self, table: Any, row_ids: npt.NDArray[np.uint64], chunk_ids: pa.Array) -> None:
        self._table = table
        self._row_ids = row_ids
        self._chunk_ids = chunk_ids
        self._names = hit_columns(table.schema)

    def rows(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        if not numbers:
            return []
        found = self._table.take_row_ids([int(self._row_ids[number]) for number in numbers])
        by_id = {row["chunk_id"]: row for row in found.select(self._names).to_arrow().to_pylist()}
        return [by_id[self._chunk_ids[number].as_py()] for number in numbers]

    def document_ids(self, numbers: Sequence[int]) -> list[str]:
        if not numbers:
            return []
        found = self._table.take_row_ids([int(self._row_ids[number]) for number in numbers])
        pairs = found.select(["chunk_id", "document_id"]).to_arrow()
        by_id = dict(zip(pairs["chunk_id"].to_pylist(), pairs["document_id"].to_pylist(), strict=True))
        return [by_id[self._chunk_ids[number].as_py()] for number in numbers]


def indexed_text(row: dict[str, Any]) -> str:
    """What was embedded and indexed of a row, see `contracts.Chunk`."""
    return f"{row['context']}\n{row['text']}" if row["context"] else str(row["text"])


def make_hit(rank: int, score: float, row: dict[str, Any], sources: Sequence[str]) -> Hit:
    """A hit from its row. ``sources`` are all that hold its text; the row's own comes first."""
    others = sorted(set(sources) - {row["source"]})
    return Hit(
        rank=rank,
        score=score,
        source=row["source"],
        document_id=row["document_id"],
        chunk_id=row["chunk_id"],
        text=row["text"],
        metadata=json.loads(row["metadata"]),
        title=row["title"],
        heading_path=row["heading_path"],
        page=row["page"],
        start=row["start"],
        end=row["end"],
        sources=(row["source"], *others),
        matched=row.get("matched"),
    )
