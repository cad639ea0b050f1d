"""SQL conditions over the vector table, as masks over its rows: the same mask holds in every arm of a search."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_pipeline.errors import QueryError, StoreError
from rag_pipeline.lance import bucket_errors

_MASKS_KEPT = 64
_OTHER_TYPE = re.compile(r"Received literal \w+\((.*?)\) and could not convert to literal of type '(\w+)")
_HELD = {
    "Utf8": "texts, which stand in single quotes",
    "Int32": "whole numbers, which stand without quotes",
    "Int64": "whole numbers, which stand without quotes",
    "Float64": "numbers, which stand without quotes",
    "Boolean": "true and false",
}
"""What the columns of a corpus hold, by the names that LanceDB's types have."""
_LITERAL = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`""")


class RowFilter:
    """Evaluates conditions for one version of the table. A version never changes, so masks are kept for the next query.

    Args:
        table: a handle checked out at the version.
        row_ids: LanceDB's id of each row, in the order that masks have.
        columns: the names that a condition may use.
    """

    def __init__(self, table: Any, row_ids: npt.NDArray[np.uint64], columns: Sequence[str]) -> None:
        self._table = table
        self._columns = list(columns)
        self._order = np.argsort(row_ids)
        self._sorted_ids = row_ids[self._order]
        self._masks: OrderedDict[str, npt.NDArray[np.bool_]] = OrderedDict()
        self._lock = Lock()

    def mask(self, where: str) -> npt.NDArray[np.bool_]:
        """True for each row for which the condition holds.

        Raises:
            QueryError: the condition is empty, no valid SQL, or names a column that there is not.
        """
        with self._lock:
            if where in self._masks:
                self._masks.move_to_end(where)
                return self._masks[where]
        mask = self._evaluate(where)
        with self._lock:
            self._masks[where] = mask
            while len(self._masks) > _MASKS_KEPT:
                self._masks.popitem(last=False)
        return mask

    def _evaluate(self, where: str) -> npt.NDArray[np.bool_]:
        if not where.strip():
            raise QueryError("where: expected a SQL condition such as \"path LIKE 'ops/%'\", got nothing")
        if ";" in _LITERAL.sub("", where):
            raise QueryError(f"where: expected one SQL condition, got a semicolon: {where}")
        query = self._table.search().where(where).select(["chunk_id"]).with_row_id(True)
        try:
            with bucket_errors("where"):
                found = query.to_arrow()["_rowid"].to_numpy()
        except RuntimeError as error:
            if "not found" in str(error).lower():
                gone = "the files of this snapshot are gone: it was dropped meanwhile; move on with Index.refresh()"
                raise StoreError(f"where: {gone}") from None
            raise QueryError(f"where: {where}: {self._explained(str(error))}") from None
        except ValueError as error:
            raise QueryError(f"where: {where}: {self._explained(str(error))}") from None
        mask = np.zeros(len(self._order), dtype=np.bool_)
        mask[self._order[np.searchsorted(self._sorted_ids, found)]] = True
        return mask

    def _explained(self, message: str) -> str:
        allowed = f"columns are {', '.join(self._columns)}"
        missing = re.search(r"No field named ([^\s.]+)", message)
        if missing:
            return f"there is no column {missing.group(1).strip('`')}; {allowed}"
        if "could not convert to literal of type 'Timestamp" in message:
            return "compare a timestamp with one, such as modified_at > timestamp '2026-01-31 00:00:00'"
        other_type = _OTHER_TYPE.search(message)
        if other_type:
            value, wanted = other_type.groups()
            return f"{value} is compared with a column of {_HELD.get(wanted, wanted)}; {allowed}"
        if "in LIKE expression" in message:
            return f"LIKE is for columns of text; compare numbers with =, < or >; {allowed}"
        first = re.split(r", /|\n|, rust/|\.rs:", message)[0]
        first = first.removeprefix("Invalid input, ").removeprefix("Error resolving filter expression ")
        return f"not understood as a SQL condition ({first}); {allowed}"
