"""The embedding cache: content hash -> vector, one LanceDB table an embedder identity, shared by all corpora.

A text that any refresh of any corpus has embedded is never embedded again by the same identity. Rows are only ever
appended. Two refreshes may add the same hash at the same time; the vectors are equal, and the first is read.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_pipeline.contracts import EmbedderIdentity
from rag_pipeline.errors import StoreError
from rag_pipeline.lance import append, connect, create, open_table
from rag_pipeline.storage import StorePath

IDENTITY_KEY = b"rag_pipeline.identity"
"""Key of a table's schema metadata: the identity whose vectors it holds, as JSON."""

_HASHES = pa.schema([("content_hash", pa.string()), ("_rowid", pa.uint64())])
_HASHES_PER_BATCH = 2**17
_FRAGMENTS = 256
_LONGEST_REFRESH = timedelta(days=1)
"""Refreshes of other corpora read the version that they opened for as long as they last."""


class EmbeddingCache:
    """The vectors of one embedder identity.

    Holds the hashes in memory (about 80 bytes each), never the vectors. Not for use by two threads at once.
    """

    def __init__(self, folder: StorePath, identity: EmbedderIdentity) -> None:
        self.identity = identity
        self.table_name = f"{identity.provider}_{identity.key[:24]}"
        self._folder = folder
        self._schema = pa.schema(
            [("content_hash", pa.string()), ("vector", pa.list_(pa.float32(), identity.dimensions))],
            metadata={IDENTITY_KEY: identity.model_dump_json().encode()},
        )
        self._table: Any | None = _existing_table(folder, self.table_name)
        self._hashes: pa.Array = pa.array([], pa.string())
        self._rows: npt.NDArray[np.int64] | None = np.zeros(0, dtype=np.int64)
        self._load_hashes()

    def __len__(self) -> int:
        return len(self._hashes)

    def missing(self, hashes: pa.Array) -> pa.Array:
        """The distinct ones of these content hashes that have no vector yet, in order of first appearance."""
        return pc.unique(hashes.filter(pc.invert(pc.is_in(hashes, value_set=self._hashes))))

    def add(self, hashes: pa.Array, vectors: npt.NDArray[np.float32]) -> None:
        """Store vectors, shape ``(len(hashes), dimensions)``, in one commit: what was added survives a crash.

        Raises:
            StoreError: the vectors have another shape, or hold something that is no finite number.
        """
        if vectors.shape != (len(hashes), self.identity.dimensions):
            raise StoreError(
                f"{self.identity} gave vectors of shape {vectors.shape} for {len(hashes)} texts; "
                f"expected ({len(hashes)}, {self.identity.dimensions})"
            )
        if not np.isfinite(vectors).all():
            raise StoreError(f"{self.identity} gave a vector that holds something else than finite numbers")
        values = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).ravel())
        column = pa.FixedSizeListArray.from_arrays(values, self.identity.dimensions)
        batch = pa.record_batch([hashes.cast(pa.string()), column], schema=self._schema)
        if self._table is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            database = connect(self._folder)
            self._table = open_table(database, self.table_name) or create(database, self.table_name, self._schema)
        append(self._table, self._schema, [batch])
        self._hashes = pa.concat_arrays([self._hashes, batch["content_hash"]])
        self._rows = None

    def vectors(self, hashes: pa.Array) -> npt.NDArray[np.float32]:
        """The vectors of these content hashes, shape ``(len(hashes), dimensions)``.

        Raises:
            StoreError: one of them has no vector.
        """
        if self._rows is None:
            self._load_hashes()
        positions = pc.index_in(hashes, value_set=self._hashes)
        if positions.null_count:
            # Another refresh may have added them since.
            self._load_hashes()
            positions = pc.index_in(hashes, value_set=self._hashes)
        if positions.null_count or self._table is None or self._rows is None:
            table = self._folder / self.table_name
            raise StoreError(f"{table}: {positions.null_count} of {len(hashes)} vectors are missing")
        distinct, inverse = np.unique(positions.to_numpy(zero_copy_only=False), return_inverse=True)
        found = self._table.take_row_ids(self._rows[distinct].tolist()).select(["content_hash", "vector"]).to_arrow()
        # The rows come back in storage order, whatever order was asked for.
        order = pc.index_in(self._hashes.take(pa.array(distinct)), value_set=found["content_hash"].combine_chunks())
        column = found["vector"].combine_chunks().take(order)
        matrix = column.flatten().to_numpy(zero_copy_only=False).reshape(len(distinct), self.identity.dimensions)
        return np.asarray(matrix[inverse], dtype=np.float32)

    def tidy(self) -> None:
        """Join the many small pieces that single batches leave, and drop versions that nobody reads any more."""
        if self._table is not None and self._table.stats()["fragment_stats"]["num_fragments"] >= _FRAGMENTS:
            self._table.optimize(cleanup_older_than=_LONGEST_REFRESH)
            self._load_hashes()

    def _load_hashes(self) -> None:
        if self._table is None:
            return
        self._table.checkout_latest()
        query = self._table.search().select(["content_hash"]).with_row_id(True)
        stored = pa.Table.from_batches(query.to_batches(_HASHES_PER_BATCH), _HASHES)
        self._hashes = stored["content_hash"].combine_chunks()
        self._rows = stored["_rowid"].to_numpy().astype(np.int64)


def _existing_table(folder: StorePath, name: str) -> Any | None:
    if isinstance(folder, Path) and not folder.is_dir():
        return None
    return open_table(connect(folder), name)
