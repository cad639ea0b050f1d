"""Whether a corpus's source and the data root keep out of each other's way: a store must not become its own documents."""

from __future__ import annotations

from pathlib import Path

from rag_pipeline.config import NAME_PATTERN, CorpusConfig, StorageOptions
from rag_pipeline.errors import ConfigError
from rag_pipeline.sources import picked_up
from rag_pipeline.storage import ObjectPath, StorePath, is_address, parse_address

_WRITTEN = (
    "refresh.lock",
    "snapshots/CURRENT",
    "snapshots/000001.json",
    "bm25/postings-0.arrow",
    "lancedb/vectors.lance/data/0.lance",
    "lancedb/vectors.lance/_versions/1.manifest",
    "lancedb/vectors.lance/_transactions/0.txn",
)
"""One file of each kind that a refresh writes for a corpus."""


def check_apart(corpus: CorpusConfig, data_root: StorePath) -> None:
    """
    Raises:
        ConfigError: the source lies in the data root, where corpora have their stores, or it holds the data root and its
            patterns would pick up what a refresh writes there.
    """
    source, root = _parts(corpus, data_root)
    if root is None:
        return
    where = f"{corpus.file}: source.path: {corpus.source_address}"
    if source[: len(root)] == root and len(source) > len(root):
        if NAME_PATTERN.fullmatch(source[len(root)]):
            raise ConfigError(
                f"{where} lies in the data root {data_root}, where corpora have their stores; move one of the two"
            )
    elif root[: len(source)] == source:
        inside = root[len(source) :]
        if any(picked_up(corpus.source, "/".join((*inside, corpus.name, file))) for file in _WRITTEN):
            exclude = f"leave it out with source.exclude: ['{'/'.join(inside)}/**'], or " if inside else ""
            raise ConfigError(
                f"{where} holds the data root {data_root}, whose files would become documents; {exclude}move one of the two"
            )


def _parts(corpus: CorpusConfig, data_root: StorePath) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """The ways down to the source and to the data root, from where they begin in common; None where they do not."""
    if not is_address(corpus.source.path):
        try:
            return corpus.source_path.parts, data_root.parts if isinstance(data_root, Path) else None
        except (OSError, RuntimeError, ValueError):  # listing it says what is wrong
            return (), None
    address = parse_address(corpus.source.path)
    source = tuple(address.key.split("/")) if address.key else ()
    if not isinstance(data_root, ObjectPath):
        return source, None
    other = data_root.address
    if (address.scheme, address.bucket) != (other.scheme, other.bucket):
        return source, None
    options, reached = corpus.source.storage_options or StorageOptions(), dict(data_root.access.config)
    for asked, found in ((options.endpoint, reached.get("endpoint")), (options.account, reached.get("account_name"))):
        if asked is not None and asked.rstrip("/") != found:
            return source, None  # a bucket of the same name, elsewhere
    return source, tuple(other.key.split("/")) if other.key else ()
