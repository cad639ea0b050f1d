"""The embedding caches under one data root: what they hold, and pruning what no corpus uses."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from rag_pipeline.contracts import Contract, EmbedderIdentity
from rag_pipeline.embedding.cache import IDENTITY_KEY
from rag_pipeline.lance import connect, create, open_table, read, scan
from rag_pipeline.storage import StorePath, total_size


class CachedIdentity(Contract):
    """One table of the cache."""

    table: str
    identity: EmbedderIdentity
    vectors: int
    bytes: int


def cached_identities(folder: StorePath) -> list[CachedIdentity]:
    """The identities that have vectors in the cache."""
    if not folder.is_dir():
        return []
    database = connect(folder)
    found = []
    for name in sorted(path.stem for path in folder.iterdir() if path.suffix == ".lance"):
        table = open_table(database, name)
        if table is None:
            continue
        identity = EmbedderIdentity.model_validate_json(table.schema.metadata[IDENTITY_KEY])
        size = total_size(folder / f"{name}.lance")
        found.append(CachedIdentity(table=name, identity=identity, vectors=table.count_rows(), bytes=size))
    return found


def prune(folder: StorePath, table_name: str, used: pa.Array) -> int:
    """Keep only the vectors whose content hash is among those used. Returns how many were dropped.

    The table is written anew in one commit. The caller holds the locks of all corpora: a refresh would miss vectors that
    it has just added.
    """
    database = connect(folder)
    table = open_table(database, table_name)
    if table is None:
        return 0
    wanted = used.cast(pa.string())
    before = int(table.count_rows())
    kept = int(pc.sum(pc.is_in(read(table, ["content_hash"])["content_hash"], value_set=wanted)).as_py() or 0)
    if kept == before:
        return 0
    if not kept:
        drop(folder, table_name)
        return before
    batches = (batch.filter(pc.is_in(batch["content_hash"], value_set=wanted)) for batch in scan(table, table.schema.names))
    written = create(database, table_name, table.schema, batches)
    written.optimize(cleanup_older_than=timedelta(minutes=1))
    return before - kept


def drop(folder: StorePath, table_name: str) -> None:
    """Delete all vectors of one identity."""
    connect(folder).drop_table(table_name)
