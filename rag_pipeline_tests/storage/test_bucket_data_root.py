"""A data root in a bucket: the same snapshots as on a disk, one publisher of two, and nothing lost in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.cli import main
from rag_pipeline.config import data_root
from rag_pipeline.contracts import Manifest, TableVersion
from rag_pipeline.errors import ConflictError, LockedError, StoreUnreachableError
from rag_pipeline.index import lease, retention
from rag_pipeline.index.doctor import clear_leftovers, examine
from rag_pipeline.index.lock import RefreshLock
from rag_pipeline.index.snapshot import (
    publish,
    read_manifest,
    read_pointer,
    release,
    rollback,
    snapshot_numbers,
)
from rag_pipeline.index.store import CorpusStore
from rag_pipeline.query import Index
from rag_pipeline.refresh import STAGES, RefreshContext, snapshot
from rag_pipeline.storage import access
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.crash import refresh_and_die
from rag_pipeline_tests.storage.conftest import BUCKET, BucketWorkspace
from rag_pipeline_tests.storage.seaweed import SeaweedFS
from rag_pipeline_tests.storage.troubled_proxy import TroubledProxy

pytestmark = pytest.mark.stores

YAML = "source: {path: files}\nembedding: {provider: hash}\nkeep_snapshots: 3\nsafety: {max_delete_fraction: 0.9}\n"
PAGES = {f"p/{n}.md": f"# Page {n}\n\nThis is page number {n}.\n\n## More\n\nText {n * n}.\n" for n in range(30)}
QUERIES = ("page number 7", "text 49", "green apples", "cheese")


class Bucket:
    """A corpus whose source and store both lie in a bucket."""

    def __init__(self, workspace: BucketWorkspace) -> None:
        self.workspace = workspace
        workspace.corpus(yaml=YAML.replace("files", workspace.source, 1))
        for path, text in PAGES.items():
            workspace.put(path, text)

    @property
    def context(self) -> RefreshContext:
        return RefreshContext(self.workspace.config(), data_root(self.workspace.bucket_data))

    @property
    def store(self) -> CorpusStore:
        return self.context.store

    def refresh(self, **options: Any) -> dict[str, Any]:
        context = RefreshContext(self.workspace.config(), data_root(self.workspace.bucket_data), **options)
        return {stage: run(context) for stage, run in STAGES.items()}

    def index(self, **options: Any) -> Index:
        return Index.open("docs", data=self.workspace.bucket_data, **options)

    def answers(self) -> list[list[tuple[str, float]]]:
        index = self.index()
        return [[(hit.chunk_id, hit.score) for hit in index.search(query, k=20)] for query in QUERIES]

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A refresh in a process of its own, which dies where it is told to."""
        folder, log = self.workspace.corpora / "docs", self.workspace.root / "log"
        command = [sys.executable, refresh_and_die.__file__, str(folder), self.workspace.bucket_data, str(log), *arguments]
        return subprocess.Popen(command, env=self.workspace.environment, stderr=subprocess.DEVNULL)

    def command(self, *arguments: str) -> subprocess.Popen[bytes]:
        """The rag-pipeline command, on source and store in the bucket."""
        code = "import sys; from rag_pipeline.cli import main; sys.exit(main())"
        environment = {**self.workspace.environment, "RAG_PIPELINE_DATA": self.workspace.bucket_data}
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.fixture
def corpus(anywhere: BucketWorkspace) -> Bucket:
    return Bucket(anywhere)


def change(put: Any, remove: Any) -> None:
    put("p/3.md", "# Page 3\n\nNow about green apples.\n")
    put("new.md", "# New\n\nCheese comes from milk.\n")
    remove("p/5.md")


def test_source_and_store_in_a_bucket_give_the_hash_and_the_answers_of_a_disk(corpus: Bucket, tmp_path: Path) -> None:
    disk = Workspace(tmp_path / "disk")
    disk.corpus(yaml=YAML, files=PAGES)
    reports, on_disk = corpus.refresh(), disk.refresh()
    assert reports["snapshot"].hash == on_disk["snapshot"].hash
    change(corpus.workspace.put, corpus.workspace.objects.delete)
    change(disk.write, lambda path: (disk.corpora / "docs/files" / path).unlink())
    reports, on_disk = corpus.refresh(), disk.refresh()
    assert reports["snapshot"].hash == on_disk["snapshot"].hash
    of_the_place = {"bytes_read": 0, "listing": None}  # etags differ from times of change
    assert reports["documents"].model_copy(update=of_the_place) == on_disk["documents"].model_copy(update=of_the_place)
    index = disk.index()
    assert corpus.answers() == [[(hit.chunk_id, hit.score) for hit in index.search(query, k=20)] for query in QUERIES]


def test_a_store_that_was_copied_from_a_disk_is_refreshed_on(corpus: Bucket, tmp_path: Path) -> None:
    yaml = YAML.replace("files", corpus.workspace.source, 1)
    disk = Workspace(tmp_path / "disk")
    disk.corpus(yaml=yaml)
    lock = RefreshLock.acquire(CorpusStore(disk.data, "docs"), None)
    disk.refresh()
    lock.release()
    bucket = corpus.workspace.server.store(BUCKET, f"{corpus.workspace.prefix}/data")
    for file in disk.data.rglob("*"):
        if file.is_file():
            bucket.put(file.relative_to(disk.data).as_posix(), file.read_bytes())
    lock = RefreshLock.acquire(corpus.store, None)
    reports = corpus.refresh()
    lock.release()
    assert (reports["snapshot"].published, reports["documents"].items_read) == (False, 0)
    assert corpus.answers() == [[(hit.chunk_id, hit.score) for hit in disk.index().search(query, k=20)] for query in QUERIES]
    change(corpus.workspace.put, corpus.workspace.objects.delete)
    assert corpus.refresh()["snapshot"].snapshot == 2


def test_a_refresh_of_nothing_writes_nothing(corpus: Bucket) -> None:
    corpus.refresh()
    before = objects(corpus)
    reports = corpus.refresh()
    assert (reports["snapshot"].published, reports["documents"].items_read) == (False, 0)
    assert objects(corpus) == before


def objects(corpus: Bucket) -> dict[str, str]:
    store = corpus.workspace.server.store("tests", f"{corpus.workspace.prefix}/data")
    return {one["path"]: one["e_tag"] for page in store.list() for one in page}


def test_a_segment_is_downloaded_once_and_the_cache_may_vanish(corpus: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus.refresh()
    expected = corpus.answers()
    for folder in ("first", "second"):
        cache = corpus.workspace.root / folder
        monkeypatch.setenv("RAG_PIPELINE_CACHE", str(cache))
        assert corpus.answers() == expected
        files = {file.name: file.stat().st_ino for file in cache.iterdir()}
        assert len(files) == 1
        assert corpus.answers() == expected
        assert {file.name: file.stat().st_ino for file in cache.iterdir()} == files


@pytest.mark.parametrize("damage", ["cut short", "other bytes"])
def test_a_copy_that_was_damaged_is_downloaded_again(corpus: Bucket, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    corpus.refresh()
    expected = corpus.answers()
    cache = corpus.workspace.root / "other"
    monkeypatch.setenv("RAG_PIPELINE_CACHE", str(cache))
    cache.mkdir()
    for copy in (corpus.workspace.root / "cache").glob("*.cached"):
        data = copy.read_bytes()
        (cache / copy.name).write_bytes(data[:100] if damage == "cut short" else data[:-900] + b"?" * 300 + data[-600:])
    assert corpus.answers() == expected
    assert [copy.read_bytes() for copy in cache.iterdir()] == [
        (corpus.workspace.root / "cache" / copy.name).read_bytes() for copy in cache.iterdir()
    ]


def test_the_cache_is_bounded_and_a_mapped_segment_stays_readable(corpus: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_PIPELINE_CACHE_BYTES", "1")
    corpus.refresh()
    index = corpus.index()
    change(corpus.workspace.put, corpus.workspace.objects.delete)
    corpus.refresh()
    assert len(list((corpus.workspace.root / "cache").iterdir())) == 1
    assert index.search("page number 5", mode="bm25")[0].source == "p/5.md"
    assert corpus.index().search("cheese", mode="bm25")[0].source == "new.md"


def test_snapshots_roll_back_and_old_ones_go(corpus: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for state in ("alpha", "bravo", "charlie", "delta", "echo"):
        corpus.workspace.put("state.md", f"The state is {state}.")
        corpus.refresh()
    store = corpus.store
    assert snapshot_numbers(store) == [3, 4, 5]
    rollback(store, 4)
    assert corpus.index().search("the state")[0].text == "The state is delta."
    assert corpus.refresh()["snapshot"].held
    assert release(store)
    table = store.table("vectors")
    assert table is not None
    assert [tag[:15] for tag in sorted(table.tags.list())] == ["snapshot-000003", "snapshot-000004", "snapshot-000005"]
    assert examine(store) == []
    monkeypatch.setattr(retention, "_LONGEST_PUBLICATION", retention._CLOCK_MARGIN * -1)
    clear_leftovers(store)
    assert examine(store) == []
    assert corpus.index(snapshot=3).search("the state")[0].text == "The state is charlie."


class TestTwoHosts:
    def builder(self, store: CorpusStore) -> Any:
        served = read_manifest(store)

        def build(number: int, version: TableVersion) -> Manifest:
            return served.model_copy(update={"snapshot": number, "vector_table": version})

        return build

    def test_of_two_publishers_one_loses_cleanly(self, corpus: Bucket) -> None:
        corpus.refresh()
        outcomes: list[object] = []
        before, barrier = read_pointer(corpus.store), threading.Barrier(6)

        def run() -> None:
            store = corpus.store
            build = self.builder(store)
            barrier.wait()
            try:
                outcomes.append(publish(store, before, build).snapshot)
            except ConflictError as error:
                outcomes.append(str(error))

        threads = [threading.Thread(target=run) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(outcomes) == 6
        published = [outcome for outcome in outcomes if isinstance(outcome, int)]
        assert all("nothing was published" in outcome for outcome in outcomes if isinstance(outcome, str))
        assert len(published) == 1
        store = corpus.store
        pointer = read_pointer(store)
        assert pointer is not None
        assert (pointer.snapshot, snapshot_numbers(store)) == (published[0], [1, published[0]])
        assert examine(store) == []
        assert corpus.answers()

    def test_what_a_dead_publisher_left_is_never_taken_for_a_snapshot(
        self, corpus: Bucket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        corpus.refresh()
        store = corpus.store
        pointer = read_pointer(store)
        left = read_manifest(store).model_copy(update={"snapshot": 2})
        (store.snapshots / "000002.json").write_bytes(left.model_dump_json().encode())
        assert publish(store, pointer, self.builder(store)).snapshot == 3
        assert snapshot_numbers(store) == [1, 3]
        monkeypatch.setattr(retention, "_LONGEST_PUBLICATION", retention._CLOCK_MARGIN * -1)
        assert [path.name for path in retention.spare_files(store)] == ["000002.json"]
        retention.maintain(store, keep_snapshots=5, keep_days=None)
        assert not (store.snapshots / "000002.json").exists()
        assert publish(store, read_pointer(store), self.builder(store)).snapshot == 4
        assert "skipped" not in json.loads((store.snapshots / "CURRENT").read_bytes())

    def test_two_refreshes_at_once_are_told_of_each_other(self, corpus: Bucket) -> None:
        store = corpus.store
        first = corpus.start()
        while not (store.root / "refresh.lock").is_file():
            time.sleep(0.02)
        with pytest.raises(LockedError, match=f"is being refreshed already by process {first.pid} on "):
            RefreshLock.acquire(store, "other")
        RefreshLock.acquire(store, "another", wait=60).release()
        assert first.wait() == 0

    def test_a_lease_is_renewed_and_an_old_one_is_taken_over(self, corpus: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lease, "_LEASE_SECONDS", 0.5)
        monkeypatch.setattr(lease, "_RENEWAL_SECONDS", 0.1)
        monkeypatch.setattr(lease, "_CLOCK_SECONDS", 0.0)
        held = RefreshLock.acquire(corpus.store, "first")
        with pytest.raises(LockedError):
            RefreshLock.acquire(corpus.store, "second", wait=1.5)
        monkeypatch.setattr(lease, "_RENEWAL_SECONDS", 60.0)
        time.sleep(0.2)  # the holder goes to sleep after its last renewal
        RefreshLock.acquire(corpus.store, "second", wait=20).release()
        held.release()

    def test_a_renewal_whose_answer_was_lost_costs_the_holder_nothing(
        self, corpus: Bucket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(lease, "_RENEWAL_SECONDS", 0.1)
        held = RefreshLock.acquire(corpus.store, "first")
        file = corpus.store.root / "refresh.lock"
        file.write_bytes(file.read_bytes() + b" ")  # by the holder, as far as anybody can tell
        time.sleep(0.5)
        with pytest.raises(LockedError):
            RefreshLock.acquire(corpus.store, "second")
        held.release()
        assert "took the lease over" not in caplog.text
        RefreshLock.acquire(corpus.store, "second").release()

    def test_a_lease_of_a_process_that_died_here_is_none(self, corpus: Bucket) -> None:
        process = corpus.start("3")
        assert process.wait() == -signal.SIGKILL
        RefreshLock.acquire(corpus.store, "next").release()


def test_killed_at_write_points_and_then_finished(corpus: Bucket) -> None:
    """Every refresh goes on where the one before was killed, so that later and later points are reached."""
    corpus.refresh()
    served = corpus.answers()
    change(corpus.workspace.put, corpus.workspace.objects.delete)
    source = corpus.workspace.source

    undisturbed = Bucket(
        BucketWorkspace(corpus.workspace.root / "other", corpus.workspace.server, f"{corpus.workspace.prefix}-b")
    )
    undisturbed.workspace.corpus(yaml=YAML.replace("files", source, 1))
    undisturbed.refresh()
    expected, digest = undisturbed.answers(), undisturbed.index().manifest.hash
    number = 2
    while (process := corpus.start(str(number))).wait() != 0:
        assert process.returncode == -signal.SIGKILL
        assert corpus.answers() in (served, expected), number
        number += 4 if source.startswith("s3") else 12
    assert corpus.answers() == expected
    assert corpus.index().manifest.hash == digest


def test_a_server_that_dies_and_comes_back_costs_a_refresh_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of its own, since the others' must live."""
    server = SeaweedFS(tmp_path / "server")
    server.start(BUCKET)
    try:
        for name, value in {**server.environment, "RAG_PIPELINE_CACHE": str(tmp_path / "cache")}.items():
            monkeypatch.setenv(name, value)
        corpus = Bucket(BucketWorkspace(tmp_path, server, "dies"))
        corpus.refresh()
        change(corpus.workspace.put, corpus.workspace.objects.delete)
        index = corpus.index()
        expected = index.search("page number 7")
        monkeypatch.setattr(access, "_RETRIES", 1)
        process = corpus.command("refresh", "docs")
        time.sleep(2)
        server.kill()
        assert index.search("page number 7") == expected, "what is open goes on"
        with pytest.raises(StoreUnreachableError, match="cannot be reached"):
            corpus.index()
        server.start(BUCKET)
        output = process.communicate()[1].decode()
        assert process.returncode == 0 or "cannot be reached" in output or "the store answers" in output, output
        corpus.refresh()
        assert corpus.index().search("cheese")[0].source == "new.md"
        assert [finding.message for finding in examine(corpus.store) if finding.severity == "error"] == []
    finally:
        server.kill()


def test_answers_that_are_cut_off_cost_a_refresh_nothing(bucket: BucketWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = Bucket(bucket)
    proxy = TroubledProxy(
        corpus.workspace.server.endpoint, lambda number, method, path: "cut" if method == "GET" and number % 4 == 1 else None
    )
    try:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        corpus.refresh()
        monkeypatch.setenv("RAG_PIPELINE_CACHE", str(corpus.workspace.root / "other"))
        assert corpus.index().search("page number 5", mode="bm25")[0].source == "p/5.md"
        assert sum(trouble == "cut" for _, _, trouble in proxy.requests) > 20
    finally:
        proxy.close()


def test_a_store_that_fails_after_publishing_fails_no_refresh(
    corpus: Bucket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    corpus.refresh()
    corpus.workspace.put("late.md", "# Late\n\nPublished all the same.\n")

    def unreachable(*arguments: Any) -> None:
        raise StoreUnreachableError("s3://tests: cannot be reached")

    monkeypatch.setattr(snapshot, "maintain", unreachable)
    corpus.refresh()
    assert "published, but old snapshots could not be cleared away: s3://tests: cannot be reached" in caplog.text
    assert corpus.index().search("published all the same", mode="bm25")[0].source == "late.md"


def test_readers_meanwhile_see_whole_snapshots(corpus: Bucket) -> None:
    corpus.workspace.put("state.md", "The state is 0.")
    corpus.refresh()
    stop, seen, errors = threading.Event(), set(), []

    def read() -> None:
        index = corpus.index()
        while not stop.is_set():
            try:
                hits = index.search("the state is", k=5)
                seen.add((index.snapshot, next(hit.text for hit in hits if hit.source == "state.md")))
                index.refresh()
            except Exception as error:  # noqa: BLE001 (whatever it is, the test fails with it)
                errors.append(error)
                return

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for state in range(1, 4):
        corpus.workspace.put("state.md", f"The state is {state}.")
        corpus.refresh()
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors
    assert seen <= {(state + 1, f"The state is {state}.") for state in range(4)}
    assert len(seen) > 1


def test_every_command_works_on_a_bucket(
    corpus: Bucket, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAG_PIPELINE_DATA", corpus.workspace.bucket_data)
    monkeypatch.setenv("RAG_PIPELINE_CORPORA", str(corpus.workspace.corpora))

    def run(*arguments: str, code: int = 0) -> Any:
        assert main([*arguments, "--json"]) == code, capfd.readouterr()
        output, errors = capfd.readouterr()
        return json.loads(output) if output else errors

    assert run("refresh", "docs")[0]["status"] == "published"
    change(corpus.workspace.put, corpus.workspace.objects.delete)
    assert run("refresh", "docs", "--dry-run")[0]["documents"]["changed"] == 1
    assert run("refresh", "docs")[0]["documents"] == {
        "total": 30, "added": 1, "changed": 1, "removed": 1, "unchanged": 28, "failed": 0
    }  # fmt: skip
    assert run("search", "docs", "cheese")["hits"][0]["source"] == "new.md"
    assert [row["snapshot"] for row in run("history", "docs")["snapshots"]] == [2, 1]
    assert run("diff", "docs", "1", "2")
    assert run("evaluate", "docs")["snapshot"] == 2
    run("rollback", "docs", "1")
    assert run("corpora")[0]["held"]
    run("release", "docs")
    assert run("doctor")["findings"] == []
    assert run("cache", "--prune")["tables"][0]["vectors"] == 58
    assert "there: docs" in run("search", "nothing", "x", code=1)


def test_no_secret_is_written_or_said(corpus: Bucket, capfd: pytest.CaptureFixture[str]) -> None:
    corpus.refresh()
    data = corpus.workspace.server.store("tests", f"{corpus.workspace.prefix}/data")
    secret = corpus.workspace.server.secret
    for page in data.list():
        for one in page:
            assert secret.encode() not in bytes(data.get(one["path"]).bytes())
    shown = [repr(corpus.store.root), repr(corpus.store.root.access), repr(corpus.store.database), repr(corpus.context)]  # type: ignore[union-attr]
    assert secret not in "".join([*shown, *capfd.readouterr()])
    assert secret in os.environ.values()
