"""What every stage of one refresh works with."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rag_pipeline.chunking import CHUNKER_VERSION
from rag_pipeline.config import CorpusConfig
from rag_pipeline.embedding import Embedder, embedder_for
from rag_pipeline.hashing import value_hash
from rag_pipeline.index.store import CorpusStore
from rag_pipeline.refresh.progress import Reporter, Silent


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
