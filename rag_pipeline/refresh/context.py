"""What every stage of one refresh works with."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from rag_pipeline.config import CorpusConfig
from rag_pipeline.embedding import Embedder, embedder_for
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

    @cached_property
    def embedder(self) -> Embedder:
        return embedder_for(self.corpus.embedding)
