"""Whatever the history of a corpus, it ends with the chunks, the manifest hash and the rankings of a fresh build."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rag_pipeline import write_points
from rag_pipeline.index.snapshot import read_pointer, release, rollback, snapshot_numbers
from rag_pipeline.index.store import CorpusStore
from rag_pipeline_tests.conftest import Workspace

BASE = "source: {path: files}\nembedding: {provider: hash}\nkeep_snapshots: 3\n"
CONFIGURATIONS = (
    "",
    "chunking: {size: 12, overlap: 2}\n",
    "lexical: {language: german}\n",
    "metadata: {year: int}\n",
    "embedding: {provider: hash, dimensions: 64}\n",
)
NAMES = ("a.md", "b.md", "sub/c.md", 'it\'s "d".txt', "é/名.md")
WORDS = st.sampled_from(["apples", "bread", "cheese", "dumplings", "the", "sour", "sweet", "flour", "milk", "round"])
TEXTS = st.builds(
    lambda year, title, parts: (
        f"---\nyear: {year}\n---\n# {title}\n\n" + "\n\n## Part\n\n".join(" ".join(p) for p in parts) + "\n"
    ),
    st.integers(2020, 2022),
    WORDS,
    st.lists(st.lists(WORDS, min_size=1, max_size=30), min_size=1, max_size=4),
)
QUERIES = ("apples and bread", "sour milk", "dumplings")


class StoppedError(Exception):
    """What the hook raises where the process would have been killed."""


class History(RuleBasedStateMachine):
    """Random edits, renames, deletions, configurations, interrupted refreshes and rollbacks."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.workspace = Workspace(self.root / "grown")
        self.configuration = ""
        self.workspace.corpus(yaml=self.yaml(), files={"keep.txt": "This page stays for ever."})

    def yaml(self) -> str:
        safety = "safety: {max_delete_fraction: 1.0, max_failed_fraction: 1.0}\n"
        base = BASE.replace("embedding: {provider: hash}\n", "") if "embedding" in self.configuration else BASE
        return base + safety + self.configuration

    def path(self, name: str) -> Path:
        return self.workspace.corpora / "docs" / "files" / name

    @rule(name=st.sampled_from(NAMES), text=TEXTS)
    def write(self, name: str, text: str) -> None:
        self.workspace.write(name, text)

    @rule(name=st.sampled_from(NAMES), other=st.sampled_from(NAMES))
    def rename(self, name: str, other: str) -> None:
        if self.path(name).exists():
            self.path(other).parent.mkdir(parents=True, exist_ok=True)
            self.path(name).rename(self.path(other))

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        self.path(name).unlink(missing_ok=True)

    @rule(configuration=st.sampled_from(CONFIGURATIONS))
    def configure(self, configuration: str) -> None:
        self.configuration = configuration
        self.workspace.corpus(yaml=self.yaml())

    @rule()
    def refresh(self) -> None:
        self.workspace.refresh(allow_deletes=True)

    @rule(points=st.integers(0, 40))
    def refresh_and_stop(self, points: int) -> None:
        left = points

        def hook(point: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise StoppedError(point)

        write_points.hook = hook
        try:
            self.workspace.refresh(allow_deletes=True)
        except StoppedError:
            pass
        finally:
            write_points.hook = None

    @precondition(lambda self: self.workspace.data.exists() and snapshot_numbers(self.store()))
    @rule(which=st.integers(0, 5), then_release=st.booleans())
    def roll_back(self, which: int, then_release: bool) -> None:
        numbers = snapshot_numbers(self.store())
        rollback(self.store(), numbers[which % len(numbers)])
        if then_release:
            release(self.store())

    @invariant()
    def what_is_served_can_be_searched(self) -> None:
        if self.workspace.data.exists() and read_pointer(self.store()) is not None:
            assert self.workspace.index().search("this page stays", mode="bm25")[0].source == "keep.txt"

    def store(self) -> CorpusStore:
        return self.workspace.context().store

    def teardown(self) -> None:
        try:
            self.ends_as_a_fresh_build_does()
        finally:
            shutil.rmtree(self.root)

    def ends_as_a_fresh_build_does(self) -> None:
        if self.workspace.data.exists():
            release(self.store())
        self.workspace.refresh(allow_deletes=True)
        fresh = Workspace(self.root / "fresh")
        shutil.copytree(self.workspace.corpora, fresh.corpora, copy_function=shutil.copy2)
        fresh.refresh()
        ours, theirs = self.workspace.index(), fresh.index()
        assert ours.manifest.hash == theirs.manifest.hash
        assert ours.chunk_ids() == theirs.chunk_ids()
        for query in QUERIES:
            for mode in ("hybrid", "bm25", "vector"):
                left, right = ours.search(query, k=30, mode=mode), theirs.search(query, k=30, mode=mode)  # type: ignore[arg-type]
                assert [(hit.chunk_id, hit.score, hit.sources) for hit in left] == [
                    (hit.chunk_id, hit.score, hit.sources) for hit in right
                ]


TestHistories = pytest.mark.slow(History.TestCase)
TestHistories.settings = settings(max_examples=60, stateful_step_count=12, suppress_health_check=list(HealthCheck))
