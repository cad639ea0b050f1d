"""Where a corpus's store lies under the data root."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from rag_pipeline.config import NAME_PATTERN, RESERVED_NAMES
from rag_pipeline.errors import ConfigError
from rag_pipeline.lance import connect, open_table
from rag_pipeline.storage import StorePath

ITEMS = "items"
"""What the source listed: lets the next refresh pass over what did not change without touching the documents."""
DOCUMENTS = "documents"
CHUNKS = "chunks"
CONTEXT_LINES = "context_lines"
"""The lines that a chat model has written, by what they were written for."""
VECTORS = "vectors"
"""The vector table, the only one that readers open."""
EVALUATIONS = "evaluations"
"""What each query found in the candidates and snapshots that were evaluated."""
QUERY_VECTORS = "query_vectors"
"""Vectors of evaluation queries, so that a model is asked for each of them once."""


class CorpusStore:
    """The folders of one corpus, and its LanceDB database. Opening a store creates nothing."""

    def __init__(self, data_root: StorePath, corpus: str) -> None:
        if not NAME_PATTERN.fullmatch(corpus) or corpus in RESERVED_NAMES:
            raise ConfigError(f"corpus {corpus!r}: expected a name of the form [a-z][a-z0-9_]*")
        self.corpus = corpus
        self.root = data_root / corpus
        self.embeddings = data_root / "embeddings"

    @property
    def lancedb(self) -> StorePath:
        return self.root / "lancedb"

    @property
    def bm25(self) -> StorePath:
        return self.root / "bm25"

    @property
    def snapshots(self) -> StorePath:
        return self.root / "snapshots"

    @cached_property
    def database(self) -> Any:
        return connect(self.lancedb)

    def table(self, name: str) -> Any | None:
        """A handle on the newest version of a table, or None when there is no such table yet."""
        if isinstance(self.lancedb, Path) and not self.lancedb.is_dir():
            return None
        return open_table(self.database, name)

    def uri(self, name: str) -> str:
        """Where a table lies, as the Dagster UI shows it."""
        return str(self.lancedb / f"{name}.lance")
