"""Where corpora and their stores lie, and what they may be called."""

from __future__ import annotations

import os
import re
from pathlib import Path

from rag_pipeline.errors import ConfigError

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


def data_root(override: str | os.PathLike[str] | None = None) -> Path:
    """The folder under which every corpus has its store.

    Raises:
        ConfigError: the root is a URI; object stores as data roots are not there yet.
    """
    root = str(override or os.environ.get(DATA_VARIABLE) or "data")
    if "://" in root:
        raise ConfigError(f"{DATA_VARIABLE}={root}: expected a path of this machine; object stores are not supported yet")
    return Path(root).resolve()
