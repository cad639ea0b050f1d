"""kill -9 at any write or time: what is served stays served, and the next refresh ends as an undisturbed one does."""

from __future__ import annotations

import errno
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rag_pipeline import write_points
from rag_pipeline.embedding.cache import EmbeddingCache
from rag_pipeline.index.doctor import clear_leftovers, examine
from rag_pipeline.index.snapshot import read_pointer
from rag_pipeline.query import Index
from rag_pipeline_tests.conftest import Workspace

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("refresh_and_die.py")
QUERIES = ("apples that are sour", "bread", "milk and cheese", "page number 7", "something new")
YAML = (
    "source: {path: files}\nembedding: {provider: hash}\nkeep_snapshots: 2\n"
    "safety: {max_delete_fraction: 0.9, max_failed_fraction: 0.9}\n"
)


def fill(workspace: Workspace) -> None:
    """The state before: three snapshots of a small corpus, so that retention has work to do as well."""
    pages = {f"p/{n}.md": f"# Page {n}\n\nThis is page number {n}.\n\n## More\n\nText {n * n}.\n" for n in range(30)}
    workspace.corpus(
        yaml=YAML, files={**pages, "a.md": "# Apples\n\nGreen apples are sour.\n", "b.md": "# Bread\n\nFlour.\n"}
    )
    workspace.refresh()
    workspace.write("c.txt", "Cheese comes from milk.\n")
    workspace.refresh()
    workspace.write("d.txt", "Dumplings.\n")
    workspace.refresh()


def change(workspace: Workspace) -> None:
    """An edit, a new file, a rename, a deletion and a file that cannot be read any more."""
    files = workspace.corpora / "docs" / "files"
    workspace.write("a.md", "# Apples\n\nRed apples are sweet, green ones sour.\n")
    workspace.write("new.md", "# New\n\nSomething new under the sun.\n")
    (files / "p" / "3.md").rename(files / "p" / "three.md")
    (files / "p" / "5.md").unlink()
    workspace.write("c.txt", b"\x89PNG\r\n\x1a\n" + bytes(range(256)))


def answers(workspace: Workspace) -> list[list[tuple[str, float]]]:
    index = workspace.index()
    return [[(hit.chunk_id, hit.score) for hit in index.search(query, k=20)] for query in QUERIES]


def start(workspace: Workspace, log: Path, *last: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(SCRIPT), str(workspace.corpora / "docs"), str(workspace.data), str(log), *last]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, env=workspace.environment)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A filled store whose source has changed since."""
    workspace = Workspace(tmp_path_factory.mktemp("prepared"))
    fill(workspace)
    change(workspace)
    return workspace


@pytest.fixture(scope="module")
def undisturbed(
    prepared: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, list[list[tuple[str, float]]], list[str], int]:
    """Hash, answers, write points and embedded texts of a refresh that nobody disturbs."""
    workspace = copy_of(prepared, tmp_path_factory.mktemp("undisturbed"))
    before = cached(workspace)
    log = workspace.root / "log"
    assert start(workspace, log).wait() == 0
    return workspace.index().manifest.hash, answers(workspace), log.read_text().split(), cached(workspace) - before


def copy_of(prepared: Workspace, root: Path) -> Workspace:
    shutil.copytree(prepared.root, root, dirs_exist_ok=True, copy_function=shutil.copy2)
    return Workspace(root)


def cached(workspace: Workspace) -> int:
    """Rows of the cache: a text that was embedded twice would be there twice."""
    context = workspace.context()
    return len(EmbeddingCache(context.store.embeddings, context.embedder.identity))


def check(
    workspace: Workspace,
    served_before: list[list[tuple[str, float]]],
    expected: tuple[str, list[list[tuple[str, float]]], list[str], int],
    cached_before: int,
) -> None:
    now = answers(workspace)
    assert now in (served_before, expected[1]), "a half refresh is served"
    log = workspace.root / "log"
    assert start(workspace, log).wait() == 0
    assert workspace.index().manifest.hash == expected[0]
    assert answers(workspace) == expected[1]
    assert cached(workspace) - cached_before == expected[3], "a text was embedded twice"
    store = workspace.context().store
    clear_leftovers(store)
    assert examine(store) == []
    assert not list(workspace.data.rglob("*.tmp"))
    pointer = read_pointer(store)
    assert pointer is not None
    assert pointer.snapshot == pointer.newest


def test_there_are_enough_points_to_die_at(undisturbed: tuple[str, object, list[str], int]) -> None:
    points = undisturbed[2]
    assert len(points) >= 25
    for what in (
        "items",
        "documents",
        "chunks",
        "vectors",
        "postings",
        "deletions",
        "working_segments",
        "evaluations",
        "manifest",
        "current",
        "tag",
    ):
        assert any(point.startswith(f"{what}.") for point in points), f"no write point of {what}"


def test_killed_at_every_write_point(
    prepared: Workspace, undisturbed: tuple[str, list[list[tuple[str, float]]], list[str], int], tmp_path: Path
) -> None:
    served, before = answers(prepared), cached(prepared)
    for number, point in enumerate(undisturbed[2], 1):
        workspace = copy_of(prepared, tmp_path / str(number))
        log = workspace.root / "log"
        assert start(workspace, log, str(number)).wait() == -signal.SIGKILL, point
        check(workspace, served, undisturbed, before)
        shutil.rmtree(workspace.root)


@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("broken")])
def test_a_write_that_fails_at_any_point_leaves_the_store_able_to_go_on(
    prepared: Workspace,
    undisturbed: tuple[str, list[list[tuple[str, float]]], list[str], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Exception,
) -> None:
    served, before = answers(prepared), cached(prepared)
    for number in itertools.count():
        workspace = copy_of(prepared, tmp_path / str(number))
        left = number

        def hook(point: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise fault

        monkeypatch.setattr(write_points, "hook", hook)
        try:
            workspace.refresh()
        except type(fault):
            pass
        else:
            assert number >= 25
            break
        finally:
            monkeypatch.setattr(write_points, "hook", None)
        assert answers(workspace) in (served, undisturbed[1])
        workspace.refresh()
        assert workspace.index().manifest.hash == undisturbed[0]
        assert answers(workspace) == undisturbed[1]
        assert cached(workspace) - before == undisturbed[3]
        shutil.rmtree(workspace.root)


def test_a_pinned_snapshot_outlives_a_killed_refresh(prepared: Workspace, tmp_path: Path) -> None:
    workspace = copy_of(prepared, tmp_path)
    pinned = Index.open("docs", data=workspace.data, snapshot=2)
    before = [hit.text for hit in pinned.search("cheese")]
    start(workspace, tmp_path / "log", "12").wait()
    assert [hit.text for hit in Index.open("docs", data=workspace.data, snapshot=2).search("cheese")] == before


# Last, so that another worker can take it while the first is at every write point.
def test_killed_at_random_times(
    prepared: Workspace, undisturbed: tuple[str, list[list[tuple[str, float]]], list[str], int], tmp_path: Path
) -> None:
    seed = int(os.environ.get("SEED", time.time()))
    print(f"SEED={seed}")  # noqa: T201 (shown by pytest when the test fails)
    chance = random.Random(seed)
    served, before = answers(prepared), cached(prepared)
    workspace = copy_of(prepared, tmp_path / "timed")
    began = time.monotonic()
    assert start(workspace, workspace.root / "log").wait() == 0
    span = time.monotonic() - began
    for number in range(50):
        workspace = copy_of(prepared, tmp_path / str(number))
        process = start(workspace, workspace.root / "log")
        time.sleep(chance.uniform(0.3, 1.0) * span)
        process.kill()
        process.wait()
        check(workspace, served, undisturbed, before)
        shutil.rmtree(workspace.root)
