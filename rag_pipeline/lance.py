"""What every use of a LanceDB table needs: connecting, streaming, selecting by key, appending, replacing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_pipeline.errors import RagPipelineError, StoreError, StoreUnreachableError
from rag_pipeline.storage import Failure, ObjectPath, StorePath, failure_of, read_again
from rag_pipeline.write_points import reached

_KEYS_PER_STATEMENT = 500
"""How many keys one IN list names: a longer one is slow to plan."""

_LISTINGS = 5

_ROWS_IN_MEMORY = 2**17
"""Rows a batch where all rows are to be in memory anyway: each batch costs about as much as reading 5,000 short rows."""


def connect(folder: StorePath) -> Any:
    """A LanceDB connection. A path is made absolute: a relative one that begins with "db" is taken for the cloud.

    Raises:
        StoreError: the folder lies in a bucket that is not there, or that lets nobody in.
        StoreUnreachableError: it lies in a bucket that fails or cannot be reached.
    """
    # Lance logs a warning for each new table; read when the library is loaded, and a user's own setting wins.
    os.environ.setdefault("LANCEDB_LOG", "error")
    import lancedb

    if isinstance(folder, ObjectPath):
        with bucket_errors(str(folder)):
            return lancedb.connect(folder.access.lance_uri, storage_options=folder.access.lance_options)
    return lancedb.connect(str(folder.resolve()))


def open_table(database: Any, name: str) -> Any | None:
    """A handle pinned to the newest version, or None when the database has no such table."""
    try:
        return read_again(lambda: database.open_table(name))
    except (ValueError, FileNotFoundError, RuntimeError, OSError) as error:
        failure = failure_of(error)
        if failure is not None:
            raise _store_error(f"table {name}", failure) from None
        if "not found" in str(error).lower():
            return None
        raise


def versions(table: Any) -> list[dict[str, Any]]:
    """All versions of a table, oldest first, as LanceDB describes them."""
    found: list[dict[str, Any]] = read_again(table.list_versions)
    return found


def tag_version(table: Any, tag: str) -> int | None:
    """The version that a tag keeps, or None when there is no such tag."""
    try:
        return int(table.tags.get_version(tag))
    except RuntimeError as error:
        if "not found" in str(error).lower():
            return None
        raise


def tag_versions(table: Any) -> dict[str, int]:
    """The versions that all tags keep. LanceDB lists tags, then reads each: one that vanishes meanwhile is no fault."""
    for _ in range(_LISTINGS - 1):
        try:
            return _tag_versions(table)
        except RuntimeError as error:
            if "not found" not in str(error).lower():
                raise
    return _tag_versions(table)


def _tag_versions(table: Any) -> dict[str, int]:
    return {name: int(tag["version"]) for name, tag in read_again(table.tags.list).items()}


def sql_string(value: str) -> str:
    """A text as a SQL literal. Doubling the quotes is all that LanceDB's dialect escapes."""
    return "'" + value.replace("'", "''") + "'"


@contextmanager
def damage_as_store_error(name: str) -> Iterator[None]:
    """Turn LanceDB's error for files that are missing or damaged into ours, without the paths of its own sources.

    Raises:
        StoreError: with the first line of what LanceDB says, and what to do.
        StoreUnreachableError: the table lies in a bucket that fails or cannot be reached.
    """
    try:
        yield
    except (RuntimeError, OSError) as error:
        failure = failure_of(error)
        if failure is not None and failure.kind != "other":
            raise _store_error(f"table {name}", failure) from None
        reason = re.split(r", /|\n|, rust/", str(error))[0].removeprefix("lance error: ")
        raise StoreError(
            f"table {name}: files are missing or damaged, or cannot be written ({reason}). Make room or restore them "
            f"from a backup; if there is none, delete the folder {name}.lance and refresh, which builds it anew"
        ) from error


@contextmanager
def bucket_errors(name: str) -> Iterator[None]:
    """Turn what LanceDB says of a bucket that fails into an error of ours. Every other error passes as it is.

    Raises:
        StoreUnreachableError: the bucket fails or cannot be reached.
        StoreError: there is no such bucket, or access is refused.
    """
    try:
        yield
    except (RuntimeError, OSError, ValueError) as error:
        failure = failure_of(error)
        if failure is None or failure.kind == "other":
            raise
        raise _store_error(name, failure) from None


def _store_error(name: str, failure: Failure) -> RagPipelineError:
    kind = StoreUnreachableError if failure.transient else StoreError
    return kind(f"{name}: {failure.text}")


@contextmanager
def _own_errors(batches: Iterable[pa.RecordBatch]) -> Iterator[Iterator[pa.RecordBatch]]:
    """Batches for LanceDB to read; an error of ours on the way is raised as it was, not as LanceDB's quotation of it."""
    raised: list[RagPipelineError] = []

    def checked() -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except RagPipelineError as error:
            raised.append(error)
            raise

    try:
        yield checked()
    except Exception:
        if raised:
            raise raised[0] from None
        raise


def scan(table: Any, columns: Sequence[str], where: str | None = None, batch_rows: int = 8192) -> Iterator[pa.RecordBatch]:
    """Stream columns of a table's rows, at most ``batch_rows`` at a time."""
    query = table.search().select(list(columns))
    if where is not None:
        query = query.where(where)
    with damage_as_store_error(table.name):
        for batch in query.to_batches(batch_rows):
            if batch.num_rows:
                yield batch.select(list(columns))


def read(table: Any, columns: Sequence[str], where: str | None = None) -> pa.Table:
    """Columns of a table's rows, all in memory."""
    schema = _schema(table, columns)
    batches = scan(table, columns, where, _ROWS_IN_MEMORY)
    return pa.Table.from_batches([batch.cast(schema) for batch in batches], schema)


def _schema(table: Any, columns: Sequence[str]) -> pa.Schema:
    schema = table.schema
    return pa.schema([schema.field(column) for column in columns])


def scan_keys(
    table: Any, columns: Sequence[str], key: str, values: Sequence[str], batch_rows: int = 8192
) -> Iterator[pa.RecordBatch]:
    """Stream columns of the rows whose ``key`` is one of ``values``, in no particular order.

    A large part of a table is cheaper to scan and sift than to name key by key.
    """
    if len(values) > 20 * _KEYS_PER_STATEMENT or len(values) * 4 > table.count_rows():
        wanted = pa.array(values, pa.string())
        for batch in scan(table, list(dict.fromkeys([*columns, key])), batch_rows=batch_rows):
            found = batch.filter(pc.is_in(batch[key], wanted))
            if found.num_rows:
                yield found.select(list(columns))
        return
    for condition in in_lists(key, values):
        yield from scan(table, columns, condition, batch_rows)


def read_keys(table: Any, columns: Sequence[str], key: str, values: Sequence[str]) -> pa.Table:
    """Columns of the rows whose ``key`` is one of ``values``, all in memory, in no particular order."""
    schema = _schema(table, columns)
    return pa.Table.from_batches([batch.cast(schema) for batch in scan_keys(table, columns, key, values)], schema)


def in_lists(key: str, values: Sequence[str]) -> Iterator[str]:
    """SQL conditions that together select the rows whose ``key`` is one of ``values``."""
    for start in range(0, len(values), _KEYS_PER_STATEMENT):
        yield f"{key} IN ({', '.join(map(sql_string, values[start : start + _KEYS_PER_STATEMENT]))})"


def delete_keys(table: Any, key: str, values: Sequence[str]) -> None:
    """Delete the rows whose ``key`` is one of ``values``."""
    for condition in in_lists(key, values):
        reached(f"{table.name}.delete.before")
        with damage_as_store_error(table.name):
            table.delete(condition)
        reached(f"{table.name}.delete.after")


def append(table: Any, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Append batches in one commit. A reader, not a generator: LanceDB deadlocks on one that uses it (lancedb#2107)."""
    reached(f"{table.name}.append.before")
    with _own_errors(batches) as checked, damage_as_store_error(table.name):
        table.add(pa.RecordBatchReader.from_batches(schema, checked))
    reached(f"{table.name}.append.after")


def create(database: Any, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch] = ()) -> Any:
    """Make a table, or replace all of an existing one, in one commit; older versions stay readable by their tags."""
    reached(f"{name}.create.before")
    with _own_errors(batches) as checked, damage_as_store_error(name):
        reader = pa.RecordBatchReader.from_batches(schema, checked)
        table = database.create_table(name, data=reader, schema=schema, mode="overwrite")
    reached(f"{name}.create.after")
    return table


def upsert(table: Any, key: str, batch: pa.RecordBatch) -> None:
    """Insert rows, or replace those with the same key, in one commit. The keys within the batch must be distinct."""
    reached(f"{table.name}.upsert.before")
    with damage_as_store_error(table.name):
        table.merge_insert(key).when_matched_update_all().when_not_matched_insert_all().execute(batch)
    reached(f"{table.name}.upsert.after")
