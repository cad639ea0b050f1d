"""What the tests of several rooms share: corpora made on the spot, refreshed for real."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from rag_pipeline.config import CorpusConfig
from rag_pipeline.corpus_files import load_corpus

if TYPE_CHECKING:
    from rag_pipeline.query import Index
    from rag_pipeline.refresh import RefreshContext

# How long an example takes says more of what else the machine does than of the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@dataclass
class Workspace:
    """A corpora root and a data root of one test."""

    root: Path

    @property
    def corpora(self) -> Path:
        return self.root / "corpora"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which a command works on this workspace."""
        kept = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
        return {**kept, "RAG_PIPELINE_CORPORA": str(self.corpora), "RAG_PIPELINE_DATA": str(self.data)}

    def corpus(
        self, name: str = "docs", yaml: str = "source: {path: files}\n", files: Mapping[str, str | bytes] | None = None
    ) -> Path:
        """Write a corpus; give it files, relative to its `files` folder."""
        folder = self.corpora / name
        (folder / "files").mkdir(parents=True, exist_ok=True)
        (folder / "corpus.yaml").write_text(yaml, encoding="utf-8")
        for path, content in (files or {}).items():
            self.write(path, content, name)
        return folder

    def write(self, path: str, content: str | bytes, name: str = "docs") -> Path:
        """Write a file that was last changed a minute ago, as most files of a source were."""
        file = self.corpora / name / "files" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        past = time.time_ns() - 60_000_000_000
        os.utime(file, ns=(past, past))
        return file

    def config(self, name: str = "docs") -> CorpusConfig:
        return load_corpus(self.corpora / name)

    def context(self, name: str = "docs", **options: Any) -> RefreshContext:
        from rag_pipeline.refresh import RefreshContext

        return RefreshContext(corpus=self.config(name), data_root=self.data, **options)

    def refresh(self, name: str = "docs", **options: Any) -> dict[str, Any]:
        """Run all stages, without Dagster; the reports by stage."""
        from rag_pipeline.refresh import STAGES

        context = self.context(name, **options)
        return {stage: run(context) for stage, run in STAGES.items()}

    def index(self, name: str = "docs", **options: Any) -> Index:
        from rag_pipeline.query import Index

        return Index.open(name, data=self.data, **options)


@pytest.fixture(autouse=True)
def no_settings_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests work on stores and instances of their own, whatever the shell that runs them has set."""
    for name in [name for name in os.environ if name == "DAGSTER_HOME" or name.startswith("RAG_PIPELINE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)
