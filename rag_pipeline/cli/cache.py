"""`rag-pipeline cache`: what the embedding cache holds, and dropping what is no longer used."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any

from rag_pipeline.cli.output import print_json, print_line, print_table
from rag_pipeline.config import NAME_PATTERN, data_root
from rag_pipeline.errors import ConfigError


def add_arguments(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("cache", parents=[common], help="show or prune the embedding cache")
    parser.add_argument("--prune", action="store_true", help="drop the vectors of texts that no corpus holds any more")
    parser.add_argument("--drop", metavar="TABLE", help="drop all vectors of one identity, by its table's name")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from rag_pipeline.embedding.cache_store import cached_identities, drop

    folder = data_root() / "embeddings"
    tables = [cached.table for cached in cached_identities(folder)]
    if arguments.drop and arguments.drop not in tables:
        raise ConfigError(f"--drop {arguments.drop}: expected one of {', '.join(tables) or 'none, the cache is empty'}")
    dropped = 0
    if arguments.drop or arguments.prune:
        with ExitStack() as locks:
            _lock_all(locks)
            if arguments.drop:
                dropped += next(c.vectors for c in cached_identities(folder) if c.table == arguments.drop)
                drop(folder, arguments.drop)
            if arguments.prune:
                dropped += _prune()
    listed = cached_identities(folder)
    if arguments.json:
        print_json({"dropped": dropped, "tables": [cached.model_dump(mode="json") for cached in listed]})
        return 0
    if arguments.drop or arguments.prune:
        print_line(f"{dropped} vectors dropped")
    rows = [(cached.table, str(cached.identity), cached.vectors, f"{cached.bytes / 1e6:.1f} MB") for cached in listed]
    print_table(("table", "identity", "vectors", "size"), rows)
    return 0


def _corpora() -> list[str]:
    """The corpora that have a store under the data root, whether they are still configured or not."""
    root = data_root()
    names = sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    return [name for name in names if NAME_PATTERN.fullmatch(name) and (root / name / "lancedb").is_dir()]


def _lock_all(locks: ExitStack) -> None:
    from rag_pipeline.index.lock import RefreshLock
    from rag_pipeline.index.store import CorpusStore

    for name in _corpora():
        lock = RefreshLock.acquire(CorpusStore(data_root(), name), run_id=None)
        locks.callback(lock.release)


def _prune() -> int:
    import pyarrow as pa

    from rag_pipeline.embedding.cache_store import cached_identities, prune
    from rag_pipeline.index.store import CHUNKS, CorpusStore
    from rag_pipeline.lance import read

    tables = [CorpusStore(data_root(), name).table(CHUNKS) for name in _corpora()]
    hashes = [read(table, ["content_hash"])["content_hash"].combine_chunks() for table in tables if table is not None]
    used = pa.concat_arrays(hashes) if hashes else pa.array([], pa.string())
    folder = data_root() / "embeddings"
    return sum(prune(folder, cached.table, used) for cached in cached_identities(folder))
