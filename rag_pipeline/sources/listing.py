"""The items of a corpus's source."""

from __future__ import annotations

from collections.abc import Iterable

from rag_pipeline.config import CorpusConfig, SourceConfig
from rag_pipeline.contracts import SourceItem
from rag_pipeline.errors import SourceError
from rag_pipeline.hashing import text_hash
from rag_pipeline.sources.globs import glob_matcher
from rag_pipeline.sources.store import open_store

_DEFAULT_INCLUDE = SourceConfig.model_fields["include"].default
_ROW_FILES = {"jsonl": ("**/*.jsonl", "**/*.ndjson"), "parquet": ("**/*.parquet",)}


def list_items(corpus: CorpusConfig) -> list[SourceItem]:
    """List what the source holds, sorted by path.

    Patterns choose within a folder. Where documents are rows and ``include`` was left as it is, the files of that
    format are taken. A source that is one file lists that file, whatever the patterns say. Names that begin with a dot
    are left out unless ``source.hidden`` is set.

    Raises:
        SourceError: the source is not there or cannot be listed; the message names corpus.yaml, the key and the path.
        StoreUnreachableError: a bucket fails or cannot be reached. What it holds must not pass for removed.
    """
    store = open_store(corpus)
    if store.one_item:
        return list(store.items())
    included, excluded = glob_matcher(include_patterns(corpus.source)), glob_matcher(corpus.source.exclude)
    found: dict[str, SourceItem] = {}
    for item in store.items():
        if not included(item.path) or excluded(item.path):
            continue
        if item.path in found:
            raise SourceError(
                f"{corpus.file}: source.path: two items are both called {item.path!r} once names that are not UTF-8 "
                "are written with backslashes; rename one of them"
            )
        found[item.path] = item
    return [found[path] for path in sorted(found)]


def picked_up(source: SourceConfig, path: str) -> bool:
    """Whether patterns and dots of a source that is a folder let an item of this path through."""
    if not source.hidden and any(part.startswith(".") for part in path.split("/")):
        return False
    return glob_matcher(include_patterns(source))(path) and not glob_matcher(source.exclude)(path)


def listing_hash(items: Iterable[SourceItem]) -> str:
    """SHA-256 over what a listing shows of its items. It differs when an item came, went, or may have changed."""
    shown = (f"{item.path}\0{item.size}\0{item.modified_at.isoformat()}\0{item.etag or ''}\n" for item in items)
    return text_hash("".join(shown))


def include_patterns(source: SourceConfig) -> tuple[str, ...]:
    """What chooses the items of a folder: as configured, or what the format asks for."""
    if source.include != _DEFAULT_INCLUDE:
        return source.include
    return _ROW_FILES.get(source.format, source.include)
