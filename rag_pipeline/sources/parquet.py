"""Parquet: one document a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from rag_pipeline.config import CorpusConfig
from rag_pipeline.errors import SourceError, SourceReadError
from rag_pipeline.sources.rows import BadRow, Row, field_mapping, make_row

_BATCH_ROWS = 256
_BUFFER_BYTES = 1 << 20


def parquet_rows(file: BinaryIO, corpus: CorpusConfig, path: str) -> Iterator[Row | BadRow]:
    """Read a Parquet file batch by batch.

    Raises:
        SourceError: a mapped column is missing.
        SourceReadError: the file is damaged or no Parquet file.
    """
    try:
        reader = pq.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False)
        _check_columns(reader.schema_arrow.names, corpus, path)
        number = 0
        for batch in reader.iter_batches(batch_size=_BATCH_ROWS):
            for values in _values(batch):
                number += 1
                yield make_row(values, number, corpus) if isinstance(values, dict) else BadRow(number, values)
    except (pa.ArrowException, OSError) as error:
        raise SourceReadError(f"{path}: damaged, or not a Parquet file: {' '.join(str(error).split())}") from None


def _check_columns(columns: list[str], corpus: CorpusConfig, path: str) -> None:
    for role, name in field_mapping(corpus):
        if name is not None and name not in columns:
            raise SourceError(
                f"{corpus.file}: source.fields.{role}: {path} has no column {name!r}; its columns are "
                f"{', '.join(map(repr, columns)) or 'none'}"
            )


def _values(batch: pa.RecordBatch) -> Iterator[dict[str, Any] | str]:
    """The rows as Python values, or the reason why one cannot be had."""
    batch = pa.RecordBatch.from_arrays([_readable(column) for column in batch.columns], names=batch.schema.names)
    try:
        yield from batch.to_pylist()
    except (ValueError, OverflowError):
        for index in range(batch.num_rows):
            try:
                yield batch.slice(index, 1).to_pylist()[0]
            except UnicodeDecodeError as error:
                yield f"not UTF-8: {error.reason} in a column of text"
            except (ValueError, OverflowError) as error:
                yield f"holds a value that Python cannot read: {error}"


def _readable(column: pa.Array) -> pa.Array:
    """Timestamps in microseconds, the finest that Python has, and in UTC, which needs no database of time zones."""
    if not pa.types.is_timestamp(column.type):
        return column
    unit = "us" if column.type.unit == "ns" else column.type.unit
    return column.cast(pa.timestamp(unit, tz="UTC" if column.type.tz else None), safe=False)
