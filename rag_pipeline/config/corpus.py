"""A whole corpus.yaml: strict, frozen, every fault of a file reported at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from rag_pipeline.config.chunking import ChunkingConfig
from rag_pipeline.config.embedding import BudgetConfig, EmbeddingConfig
from rag_pipeline.config.evaluation import EvaluationConfig
from rag_pipeline.config.metadata import MetadataName, MetadataType, _check_metadata_names
from rag_pipeline.config.parsing import ParsingConfig
from rag_pipeline.config.retrieval import LexicalConfig, RetrievalConfig
from rag_pipeline.config.roots import CORPUS_FILE, NAME_PATTERN
from rag_pipeline.config.schedule import ExecutionConfig, FreshnessConfig, ScheduleConfig
from rag_pipeline.config.source import SourceConfig
from rag_pipeline.config.strict import Strict
from rag_pipeline.storage import is_address


class SafetyConfig(Strict):
    """How much a refresh may lose before it stops instead of publishing."""

    max_delete_fraction: float = Field(default=0.3, ge=0, le=1)
    max_failed_fraction: float = Field(default=0.1, ge=0, le=1)


def _check_owner(owner: str) -> str:
    if not re.fullmatch(r"team:[A-Za-z0-9_\-. ]+|[^@\s]+@[^@\s]+\.[^@\s]+", owner):
        raise ValueError(f"expected 'team:name' or an e-mail address, got {owner!r}")
    return owner


def _check_group(group: str) -> str:
    if not NAME_PATTERN.fullmatch(group):
        raise ValueError(f"expected a name of small letters, digits and underscores such as 'support', got {group!r}")
    return group


class CorpusConfig(Strict):
    """One corpus. ``name`` and ``folder`` come from where the file lies, everything else from what it says.

    Corpora with the same ``group`` can be refreshed together.
    """

    name: str
    folder: Path
    description: str = ""
    owners: tuple[Annotated[str, AfterValidator(_check_owner)], ...] = ()
    group: Annotated[str, AfterValidator(_check_group)] | None = None
    source: SourceConfig
    metadata: Annotated[dict[MetadataName, MetadataType], AfterValidator(_check_metadata_names)] = Field(
        default_factory=dict
    )
    parsing: ParsingConfig = ParsingConfig()
    chunking: ChunkingConfig = ChunkingConfig()
    embedding: EmbeddingConfig = EmbeddingConfig()
    budget: BudgetConfig = BudgetConfig()
    lexical: LexicalConfig = LexicalConfig()
    retrieval: RetrievalConfig = RetrievalConfig()
    schedule: ScheduleConfig = ScheduleConfig(enabled=False)
    execution: ExecutionConfig = ExecutionConfig()
    freshness: FreshnessConfig | None = None
    evaluation: EvaluationConfig = EvaluationConfig()
    safety: SafetyConfig = SafetyConfig()
    keep_snapshots: int = Field(default=10, ge=1)
    keep_days: int | None = Field(default=None, ge=1)

    @property
    def file(self) -> Path:
        return self.folder / CORPUS_FILE

    @property
    def source_path(self) -> Path:
        """The source's root or file on this machine, absolute."""
        return (self.folder / self.source.path).resolve()

    @property
    def source_address(self) -> str:
        """Where the source is, for people: an absolute path, or the address in a bucket."""
        return self.source.path if is_address(self.source.path) else str(self.source_path)
