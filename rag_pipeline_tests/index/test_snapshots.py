"""Snapshots are immutable and numbered; one pointer says which is served; old ones go, kept ones stay as they were."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta

import pytest

from rag_pipeline.errors import ConflictError, LockedError, SnapshotNotFoundError
from rag_pipeline.index import retention
from rag_pipeline.index.doctor import clear_leftovers, examine
from rag_pipeline.index.lock import RefreshLock
from rag_pipeline.index.snapshot import publish, read_manifest, read_pointer, release, rollback, snapshot_numbers
from rag_pipeline.index.store import CorpusStore
from rag_pipeline.query import Index
from rag_pipeline_tests.conftest import Workspace

WORDS = ("zero", "alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india")
YAML = "source: {path: files}\nembedding: {provider: hash}\nsafety: {max_delete_fraction: 1.0}\n"


def filled(workspace: Workspace, states: int, yaml: str = YAML) -> Workspace:
    """One refresh for each state of a page."""
    workspace.corpus(yaml=yaml, files={"stays.txt": "This page stays as it is."})
    for state in range(1, states + 1):
        workspace.write("page.txt", f"The page in state {WORDS[state]}.")
        workspace.refresh()
    return workspace


def state_of(index: Index) -> str:
    return next(hit.text for hit in index.search("page in state") if "state" in hit.text)


def test_a_kept_snapshot_reads_as_it_was_after_later_refreshes_and_compaction(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_FRAGMENTS", 2)
    filled(workspace, 6)
    for number in range(1, 7):
        index = workspace.index(snapshot=number)
        assert WORDS[number] in state_of(index)
        assert index.search(WORDS[number], mode="bm25")[0].source == "page.txt"
        assert index.search(WORDS[number - 1], mode="bm25") == []


def test_a_rollback_is_served_and_holds_until_release(workspace: Workspace) -> None:
    filled(workspace, 3)
    store = workspace.context().store
    rollback(store, 1)
    assert WORDS[1] in state_of(workspace.index())
    workspace.write("page.txt", f"The page in state {WORDS[4]}.")
    reports = workspace.refresh()
    assert (reports["snapshot"].held, reports["snapshot"].published) == (True, False)
    assert WORDS[1] in state_of(workspace.index())
    assert release(store)
    assert not release(store)
    assert WORDS[1] in state_of(workspace.index())
    assert workspace.refresh()["snapshot"].snapshot == 4
    assert WORDS[4] in state_of(workspace.index())


def test_a_rollback_to_what_is_not_there_says_what_is(workspace: Workspace) -> None:
    filled(workspace, 2)
    with pytest.raises(SnapshotNotFoundError, match=r"no snapshot 7 \(kept: 1, 2\)"):
        rollback(workspace.context().store, 7)


def test_publishing_over_somebody_elses_publication_is_refused(workspace: Workspace) -> None:
    filled(workspace, 2)
    store = workspace.context().store
    before = read_pointer(store)
    rollback(store, 1)
    with pytest.raises(ConflictError, match="another process published or rolled back"):
        publish(store, before, lambda number, version: read_manifest(store, 2))
    assert workspace.index().snapshot == 1


def test_an_open_reader_keeps_its_snapshot_while_others_are_published(workspace: Workspace) -> None:
    filled(workspace, 1)
    index = workspace.index()
    filled(workspace, 3)
    assert WORDS[1] in state_of(index)
    assert index.refresh()
    assert WORDS[3] in state_of(index)


def test_old_snapshots_go_and_take_their_files_with_them(workspace: Workspace) -> None:
    filled(workspace, 6, YAML + "keep_snapshots: 2\n")
    store = workspace.context().store
    assert snapshot_numbers(store) == [5, 6]
    table = store.table("vectors")
    assert table is not None
    assert sorted(table.tags.list()) == ["snapshot-000005", "snapshot-000006"]
    clear_leftovers(store)
    assert examine(store) == []
    assert WORDS[5] in state_of(workspace.index(snapshot=5))


def test_the_snapshot_that_is_served_is_never_dropped(workspace: Workspace) -> None:
    filled(workspace, 3, YAML + "keep_snapshots: 1\n")
    store = workspace.context().store
    (kept,) = snapshot_numbers(store)
    rollback(store, kept)
    workspace.write("page.txt", f"The page in state {WORDS[9]}.")
    workspace.refresh()
    retention.maintain(store, keep_snapshots=1, keep_days=None)
    assert WORDS[3] in state_of(workspace.index())


def test_young_snapshots_are_kept_whatever_their_number(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(workspace, 4, YAML + "keep_snapshots: 1\nkeep_days: 7\n")
    store = workspace.context().store
    assert snapshot_numbers(store) == [1, 2, 3, 4]

    class InAMonth(datetime):
        @classmethod
        def now(cls, tz=None):  # type: ignore[no-untyped-def, override]
            return datetime.now(tz) + timedelta(days=30)

    monkeypatch.setattr(retention, "datetime", InAMonth)
    assert retention.drop_snapshots(store, keep_snapshots=1, keep_days=7) == [1, 2, 3]


def test_leftovers_are_found_and_deleted(workspace: Workspace) -> None:
    filled(workspace, 2)
    store = workspace.context().store
    assert examine(store) == []
    (store.bm25 / "postings-0123.arrow").write_bytes(b"left by a refresh that was killed")
    (store.snapshots / ".CURRENT.x.tmp").write_bytes(b"")
    (store.snapshots / "000009.json").write_bytes(b"{}")
    table = store.table("vectors")
    assert table is not None
    table.tags.create("snapshot-000009", table.version)
    assert {finding.severity for finding in examine(store)} == {"warning"}
    assert clear_leftovers(store) == 4
    assert examine(store) == []
    assert WORDS[2] in state_of(workspace.index())


def test_one_refresh_at_a_time_and_the_other_is_told_which(workspace: Workspace) -> None:
    store = CorpusStore(workspace.data, "docs")
    lock = RefreshLock.acquire(store, "run-1")
    with pytest.raises(LockedError, match=r"'docs' is being refreshed already by process \d+ on .* since"):
        RefreshLock.acquire(store, "run-2")
    lock.release()
    RefreshLock.acquire(store, "run-3").release()


def test_a_process_does_not_wait_for_itself(workspace: Workspace) -> None:
    store = CorpusStore(workspace.data, "docs")
    lock = RefreshLock.acquire(store, "run-1")
    with pytest.raises(LockedError):
        RefreshLock.acquire(store, "run-1")
    lock.release()


HOLD = """
import os, signal, sys, time
from pathlib import Path
from rag_pipeline.index.lock import RefreshLock
from rag_pipeline.index.store import CorpusStore

lock = RefreshLock.acquire(CorpusStore(Path(sys.argv[1]), "docs"), "other")
print("held", flush=True)
if sys.argv[2] == "die":
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(0.5)
lock.release()
"""


def test_a_lock_left_by_a_dead_process_is_none(workspace: Workspace) -> None:
    subprocess.run([sys.executable, "-c", HOLD, str(workspace.data), "die"], check=False)
    assert (workspace.data / "docs" / "refresh.owner.json").exists()
    RefreshLock.acquire(CorpusStore(workspace.data, "docs"), "run-2").release()


def test_processes_of_one_run_take_turns(workspace: Workspace) -> None:
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(workspace.data), "live"], stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"held\n"
    RefreshLock.acquire(CorpusStore(workspace.data, "docs"), "other").release()
    assert other.wait() == 0


def test_a_waiting_refresh_gets_its_turn(workspace: Workspace) -> None:
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(workspace.data), "live"], stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"held\n"
    RefreshLock.acquire(CorpusStore(workspace.data, "docs"), "run-2", wait=20).release()
    assert other.wait() == 0
