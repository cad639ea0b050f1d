"""Sources that hold a document a row: JSON Lines and Parquet."""

from __future__ import annotations

from collections.abc import Iterator

from rag_pipeline.config import CorpusConfig
from rag_pipeline.contracts import SourceItem
from rag_pipeline.errors import SourceReadError
from rag_pipeline.sources.jsonl import jsonl_rows
from rag_pipeline.sources.parquet import parquet_rows
from rag_pipeline.sources.rows import BadRow, Row
from rag_pipeline.sources.store import open_store


def read_rows(corpus: CorpusConfig, item: SourceItem) -> Iterator[Row | BadRow]:
    """Read the rows of one file in order, with memory bounded by the longest line or the largest row group.

    A row that cannot be used gives a BadRow and stops nothing. Ids are not compared with each other here.

    Raises:
        SourceReadError: the file vanished, cannot be read, or is damaged.
        SourceError: a column that ``source.fields`` names is not in a Parquet file.
    """
    try:
        with open_store(corpus).open(item.path) as file:
            if corpus.source.format == "parquet":
                yield from parquet_rows(file, corpus, item.path)
            else:
                yield from jsonl_rows(file, corpus)
    except OSError as error:
        raise SourceReadError(f"{item.path}: cannot be read: {error.strerror or error}") from None
