"""The sensor sees changed sources without reading them, and asks for one refresh a change."""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from pathlib import Path

import dagster as dg
import pytest

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration import build_corpus_definitions, build_definitions, changes, looks, names
from rag_pipeline.refresh.reports import SourceListing
from rag_pipeline.refresh.source import look_at_source
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.orchestration.instances import materialization, refreshed
from rag_pipeline_tests.orchestration.test_dagster import PAGES

YAML = "source: {path: files}\nschedule: {enabled: false, on_change: true, on_change_minutes: 0}\n"


class Sensor:
    """The sensor as the daemon calls it: with the cursor that it left the last time."""

    def __init__(self, workspace: Workspace, instance: dg.DagsterInstance) -> None:
        self.workspace, self.instance, self.cursor = workspace, instance, None
        self.reason: str | None = None

    def look(self, keep_cursor: bool = True) -> list[dg.RunRequest]:
        corpora = [self.workspace.config(folder.name) for folder in sorted(self.workspace.corpora.iterdir())]
        repository = build_definitions(corpora).get_repository_def()
        context = dg.build_sensor_context(self.instance, self.cursor, repository_def=repository)
        found = repository.get_sensor_def(names.CHANGES_SENSOR).evaluate_tick(context)
        self.reason = found.skip_message
        if keep_cursor:
            self.cursor = found.cursor
        for event in found.asset_events:
            self.instance.report_runless_asset_event(event)
        return list(found.run_requests or ())


@pytest.fixture
def sensor(workspace: Workspace, instance: dg.DagsterInstance) -> Sensor:
    workspace.corpus(yaml=YAML, files=PAGES)
    return Sensor(workspace, instance)


def test_a_source_that_was_never_refreshed_is_a_change(sensor: Sensor) -> None:
    assert sensor.look() == []
    (request,) = sensor.look()
    assert request.job_name == "refresh_docs"
    assert request.tags["corpus"] == "docs"
    assert request.tags[names.TRIGGER_TAG] == "source changed"


def test_what_a_refresh_has_seen_is_no_change(sensor: Sensor) -> None:
    refreshed(sensor.workspace)
    assert [sensor.look() for _ in range(3)] == [[], [], []]
    assert "as the last refresh saw them" in (sensor.reason or "")


def test_one_change_asks_for_one_run(sensor: Sensor) -> None:
    refreshed(sensor.workspace)
    sensor.look()
    sensor.workspace.write("more.md", "# More\n")
    asked = [len(sensor.look()) for _ in range(6)]
    assert asked == [0, 1, 0, 0, 0, 0], "a listing must be the same twice, and is asked for once, refreshed or not"


def test_a_change_that_is_asked_for_is_a_new_version_of_the_source(sensor: Sensor, instance: dg.DagsterInstance) -> None:
    """Then Dagster shows the documents as out of date until they are refreshed."""
    refreshed(sensor.workspace)
    consumed = materialization(instance, "docs", "documents").tags["dagster/input_data_version/docs/source"]
    assert materialization(instance, "docs", "source").tags["dagster/data_version"] == consumed
    sensor.look()
    sensor.workspace.write("more.md", "# More\n")
    for _ in range(3):
        sensor.look()
    version = materialization(instance, "docs", "source").tags["dagster/data_version"]
    assert version != consumed
    refreshed(sensor.workspace)
    assert materialization(instance, "docs", "documents").tags["dagster/input_data_version/docs/source"] == version


@pytest.mark.parametrize("change", ["added", "removed", "written again", "renamed", "same size and time"])
def test_every_kind_of_change_shows_in_the_listing(sensor: Sensor, change: str) -> None:
    refreshed(sensor.workspace)
    sensor.look()
    file = sensor.workspace.corpora / "docs" / "files" / "guide.md"
    if change == "added":
        sensor.workspace.write("more.md", "# More\n")
    elif change == "removed":
        file.unlink()
    elif change == "written again":
        file.write_text("# Guide\n\nOther words.\n")
    elif change == "renamed":
        file.rename(file.with_name("manual.md"))
    else:
        before = file.stat()
        file.write_text(file.read_text().swapcase())
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [len(sensor.look()) for _ in range(3)] == [0, 1, 0]


def test_a_source_that_returns_to_what_it_was_is_a_change_each_time(sensor: Sensor) -> None:
    refreshed(sensor.workspace)
    sensor.look()
    keys = []
    for _ in range(2):
        file = sensor.workspace.write("more.md", "# More\n")
        keys += [request.run_key for _ in range(3) for request in sensor.look()]
        refreshed(sensor.workspace)
        file.unlink()
        keys += [request.run_key for _ in range(3) for request in sensor.look()]
        refreshed(sensor.workspace, allow_deletes=True)
    assert len(set(keys)) == 4


def test_an_evaluation_whose_cursor_was_lost_asks_for_the_same_run_again(sensor: Sensor) -> None:
    sensor.look()
    (first,) = sensor.look(keep_cursor=False)
    (second,) = sensor.look()
    assert first.run_key == second.run_key, "by which Dagster knows that it has this run already"


def test_a_source_in_motion_is_left_to_come_to_rest(sensor: Sensor) -> None:
    refreshed(sensor.workspace)
    sensor.look()
    asked = []
    for number in range(4):
        sensor.workspace.write(f"part{number}.md", "# Part\n")
        asked += sensor.look()
    assert asked == []
    assert len(sensor.look()) == 1


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTED])
def test_while_a_run_of_the_corpus_waits_or_works_nothing_is_asked_for(
    sensor: Sensor, instance: dg.DagsterInstance, status: dg.DagsterRunStatus
) -> None:
    waiting = dg.DagsterRun(job_name="refresh_docs", status=status, tags={"corpus": "docs"})
    instance.add_run(waiting)
    assert [sensor.look() for _ in range(3)] == [[], [], []]
    assert "docs: a refresh waits or works" in (sensor.reason or "")
    instance.delete_run(waiting.run_id)
    assert [len(sensor.look()) for _ in range(2)] == [0, 1]


def test_changes_are_asked_for_no_more_often_than_the_corpus_says(sensor: Sensor, monkeypatch: pytest.MonkeyPatch) -> None:
    sensor.workspace.corpus(yaml=YAML.replace("on_change_minutes: 0", "on_change_minutes: 5"))
    now = 1_000_000.0
    monkeypatch.setattr(changes.time, "time", lambda: now)
    sensor.look()
    assert len(sensor.look()) == 1
    sensor.workspace.write("more.md", "# More\n")
    now += 299
    assert [sensor.look() for _ in range(3)] == [[], [], []]
    now += 1
    assert len(sensor.look()) == 1


def test_a_source_that_cannot_be_listed_holds_up_no_other(sensor: Sensor) -> None:
    sensor.workspace.corpus("gone", yaml=YAML.replace("path: files", "path: nowhere"))
    sensor.look()
    assert "gone: " in (sensor.reason or "")
    assert "does not exist" in (sensor.reason or "")
    assert [request.job_name for request in sensor.look()] == ["refresh_docs"]


def test_a_source_that_takes_long_to_list_holds_up_no_other_and_is_seen_later(
    workspace: Workspace, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, calls = threading.Event(), []

    def slowly(corpus: CorpusConfig) -> SourceListing:
        calls.append(corpus.name)
        assert corpus.name != "slow" or answers.wait(60)
        return look_at_source(corpus)

    monkeypatch.setattr(looks, "look_at_source", slowly)
    monkeypatch.setattr(changes, "_SECONDS_A_LOOK", 0.5)
    for name in ("docs", "slow"):
        workspace.corpus(name, yaml=YAML, files=PAGES)
    repository = build_definitions([workspace.config(name) for name in ("slow", "docs")]).get_repository_def()
    cursor, asked, reason = None, [], None
    for tick in range(6):
        context = dg.build_sensor_context(instance, cursor, repository_def=repository)
        found = repository.get_sensor_def(names.CHANGES_SENSOR).evaluate_tick(context)
        cursor, reason = found.cursor, found.skip_message or reason
        asked.append([request.job_name for request in found.run_requests or ()])
        if tick == 2:
            assert calls.count("slow") == 1, "it is asked once, however often somebody looks meanwhile"
            assert "slow: its source is being listed, which takes long" in (reason or "")
            answers.set()
            time.sleep(0.5)
    assert asked == [[], ["refresh_docs"], [], [], ["refresh_slow"], []]


def test_no_file_is_opened(sensor: Sensor) -> None:
    folder = sensor.workspace.corpora / "docs" / "files"
    opened: list[str] | None = []

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and opened is not None:
            opened.append(str(arguments[0]))

    sys.addaudithook(watch)
    sensor.look()
    found, opened = opened, None  # a hook stays for as long as the process does
    assert any(Path(name).name == "corpus.yaml" for name in found), "the hook sees what is opened"
    assert not [name for name in found if Path(name).parent == folder]


def test_when_time_runs_out_the_others_have_their_turn_next(sensor: Sensor, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("second", "third"):
        sensor.workspace.corpus(name, yaml=YAML, files=PAGES)
    monkeypatch.setattr(changes, "_SECONDS_A_TICK", 0.7)
    clock = itertools.count()
    monkeypatch.setattr(changes.time, "monotonic", lambda: next(clock) / 2)  # room for one corpus a tick
    asked = [[request.job_name for request in sensor.look()] for _ in range(6)]
    assert asked[:3] == [[], [], []]
    assert sorted(asked[3:]) == [["refresh_docs"], ["refresh_second"], ["refresh_third"]]


def test_a_cursor_that_cannot_be_read_counts_as_none(sensor: Sensor) -> None:
    for damaged in ("{", "[1]", json.dumps({"docs": {"known": 7}})):
        sensor.cursor = damaged
        assert sensor.look() == []
        assert len(sensor.look()) == 1


def test_one_sensor_serves_all_corpora_and_runs_from_the_start(workspace: Workspace) -> None:
    for name in ("first", "second", "third"):
        workspace.corpus(name, yaml=YAML if name != "third" else "source: {path: files}\n")
    corpora = [workspace.config(name) for name in ("first", "second", "third")]
    repository = build_definitions(corpora).get_repository_def()
    found = repository.get_sensor_def(names.CHANGES_SENSOR)
    assert found.default_status == dg.DefaultSensorStatus.RUNNING
    assert {target.job_name for target in found.targets} == {"refresh_first", "refresh_second"}


def test_a_corpus_in_a_project_of_its_own_brings_its_sensor(workspace: Workspace) -> None:
    workspace.corpus(yaml=YAML)
    (found,) = build_corpus_definitions(workspace.config()).sensors or ()
    assert found.name == "refresh_changed_sources_docs"
    workspace.corpus(yaml="source: {path: files}\n")
    assert not build_corpus_definitions(workspace.config()).sensors
