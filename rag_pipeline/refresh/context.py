"""What every stage of one refresh works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from rag_pipeline.chunking import CHUNKER_VERSION
from rag_pipeline.config import CorpusConfig
from rag_pipeline.embedding import Embedder, embedder_for
from rag_pipeline.embedding.cache import EmbeddingCache
from rag_pipeline.hashing import value_hash
from rag_pipeline.index.store import CorpusStore
from rag_pipeline.refresh.progress import Reporter, Silent

Found = TypeVar("Found")


@dataclass(frozen=True)
class RefreshContext:
    """One corpus, its store, and how it is to be refreshed.

    ``full`` reads and rebuilds everything, whatever looks unchanged. ``allow_deletes`` lifts the safety limit on what
    may vanish. ``run_id`` is recorded in the manifest.
    """

    corpus: CorpusConfig
    data_root: Path
    full: bool = False
    allow_deletes: bool = False
    run_id: str | None = None
    reporter: Reporter = field(default_factory=Silent)
    _found: dict[str, tuple[list[tuple[str, int]], Any]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def store(self) -> CorpusStore:
        return CorpusStore(self.data_root, self.corpus.name)

    @property
    def chunking_settings(self) -> dict[str, Any]:
        """What decides how a document is cut, as the manifest records it; the tokenizer comes with the embedder."""
        return {**self.corpus.chunking.model_dump(mode="json"), "chunker": CHUNKER_VERSION}

    @cached_property
    def chunking_key(self) -> str:
        """The hash over the chunking settings and the tokenizer: with another one every document is cut again."""
        return value_hash({**self.chunking_settings, "tokenizer": self.embedder.identity.key})

    @cached_property
    def embedder(self) -> Embedder:
        return embedder_for(self.corpus.embedding)

    @cached_property
    def embedding_cache(self) -> EmbeddingCache:
        """The vectors of the embedder. Opened once: the hashes that it holds are read from disk."""
        return EmbeddingCache(self.store.embeddings, self.embedder.identity)

    def found_in(self, name: str, tables: tuple[Any, ...], find: Callable[[], Found]) -> Found:
        """What ``find`` finds in these tables: found again only when one of them has another version than last time.

        A version of a table never changes, whoever writes: every commit makes another one.
        """
        versions = [(table.name, table.version) for table in tables]
        if name not in self._found or self._found[name][0] != versions:
            self._found[name] = (versions, find())
        found: Found = self._found[name][1]
        return found
