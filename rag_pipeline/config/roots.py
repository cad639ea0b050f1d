"""Where corpora and their stores lie, and what they may be called."""

from __future__ import annotations

import os
import re
from pathlib import Path

from rag_pipeline.errors import ConfigError
from rag_pipeline.storage import ObjectPath, StorePath, is_address

CORPUS_FILE = "corpus.yaml"
CORPORA_VARIABLE = "RAG_PIPELINE_CORPORA"
DATA_VARIABLE = "RAG_PIPELINE_DATA"
STRICT_VARIABLE = "RAG_PIPELINE_STRICT"
"""When it is set, one corpus.yaml with a fault keeps Dagster from loading any."""

NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]*")
RESERVED_NAMES = frozenset({"embeddings"})  # the folder of the embedding cache beside the corpora's stores


def corpora_root(override: str | os.PathLike[str] | None = None) -> Path:
    """The folder that holds one folder a corpus."""
    return Path(override or os.environ.get(CORPORA_VARIABLE) or "corpora").resolve()


def data_root(override: str | os.PathLike[str] | None = None) -> StorePath:
    """The folder under which every corpus has its store: of this machine, or in a bucket.

    Raises:
        ConfigError: it is an address that cannot be read, or there are no credentials for it.
    """
    root = str(override or os.environ.get(DATA_VARIABLE) or "data")
    if not is_address(root):
        return Path(root).resolve()
    try:
        return ObjectPath.of(root)
    except ValueError as error:
        raise ConfigError(f"{DATA_VARIABLE}: {error}") from None
