"""A corpus under Dagster: the graph people see, a real run against a real instance, and what a failure leaves behind."""

from __future__ import annotations

import signal
from typing import Any

import dagster as dg
import pytest

from rag_pipeline.index.lock import RefreshLock
from rag_pipeline.orchestration import RefreshSettings, build_corpus_definitions, build_definitions, names
from rag_pipeline.orchestration.run import run_refresh
from rag_pipeline.refresh import Silent
from rag_pipeline_tests.conftest import Workspace

PAGES = {"guide.md": "# Guide\n\nHow to roll back a snapshot.\n", "notes.txt": "Plain notes about schedules.\n"}
YAML = """\
description: Test pages
owners: ["team:docs"]
source: {path: files}
schedule: {cron: "15 4 * * *", timezone: Europe/Berlin}
freshness: {max_age_hours: 26}
"""


def evaluations(instance: dg.DagsterInstance, run_id: str) -> list[Any]:
    """The check evaluations of a run, as its event log holds them."""
    entries = instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    return [entry.dagster_event.event_specific_data for entry in entries if entry.dagster_event is not None]


def settings(workspace: Workspace) -> RefreshSettings:
    return RefreshSettings(data=str(workspace.data))


def test_the_graph_of_a_corpus_is_its_flow(workspace: Workspace) -> None:
    workspace.corpus(yaml=YAML)
    definitions = build_definitions([workspace.config()], settings(workspace))
    dg.Definitions.validate_loadable(definitions)
    graph = definitions.resolve_asset_graph()

    def parents(stage: str) -> set[str]:
        return {key.path[1] for key in graph.get(dg.AssetKey(["docs", stage])).parent_keys}

    assert {stage: parents(stage) for stage in names.STAGES} == {
        "documents": {"source"},
        "chunks": {"documents"},
        "embeddings": {"chunks"},
        "vector_table": {"documents", "chunks", "embeddings"},
        "bm25_index": {"chunks"},
        "evaluation": {"vector_table", "bm25_index"},
        "snapshot": {"evaluation"},
    }


def test_every_asset_says_what_it_is_whose_it_is_and_what_it_is_made_of(workspace: Workspace) -> None:
    workspace.corpus(yaml=YAML)
    specs = build_definitions([workspace.config()]).resolve_all_asset_specs()
    assert {spec.key.path[-1] for spec in specs} == {names.SOURCE, *names.STAGES}
    for spec in specs:
        assert spec.group_name == "docs"
        assert "Read by" in (spec.description or "")
        assert spec.owners == ["team:docs"]
        assert spec.kinds
        assert spec.tags["corpus"] == "docs"
        assert spec.code_version or spec.key.path[-1] == names.SOURCE


def test_the_schedule_is_the_one_of_corpus_yaml(workspace: Workspace) -> None:
    workspace.corpus(yaml=YAML)
    (schedule,) = build_corpus_definitions(workspace.config()).schedules or []
    assert isinstance(schedule, dg.ScheduleDefinition)
    assert (schedule.name, schedule.job_name) == ("refresh_docs_schedule", "refresh_docs")
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("15 4 * * *", "Europe/Berlin")
    assert schedule.default_status == dg.DefaultScheduleStatus.RUNNING


def test_a_corpus_without_a_schedule_has_one_that_is_stopped(workspace: Workspace) -> None:
    workspace.corpus()
    (schedule,) = build_corpus_definitions(workspace.config()).schedules or []
    assert isinstance(schedule, dg.ScheduleDefinition)
    assert schedule.default_status == dg.DefaultScheduleStatus.STOPPED


def test_a_run_publishes_and_leaves_figures_and_checks_in_the_instance(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    workspace.corpus(yaml=YAML, files=PAGES)
    outcome = run_refresh(workspace.config(), settings(workspace), Silent())
    assert outcome.error is None
    assert workspace.index().search("roll back")[0].source == "guide.md"
    assert workspace.index().manifest.run_id == outcome.run_id

    run = instance.get_run_by_id(outcome.run_id)
    assert run is not None
    assert (run.job_name, run.status, run.tags["corpus"]) == ("refresh_docs", dg.DagsterRunStatus.SUCCESS, "docs")
    figures = {}
    for stage in names.STAGES:
        event = instance.get_latest_materialization_event(dg.AssetKey(["docs", stage]))
        assert event is not None
        assert event.asset_materialization is not None
        figures[stage] = {name: value.value for name, value in event.asset_materialization.metadata.items()}
    assert figures["documents"]["added"] == 2
    assert figures["chunks"]["dagster/row_count"] == figures["vector_table"]["rows"] == figures["bm25_index"]["chunks"] == 2
    assert figures["embeddings"]["embedded"] == 2
    assert figures["snapshot"]["published"] is True
    checks = {check.check_name: check.passed for check in evaluations(instance, outcome.run_id)}
    assert checks == {
        names.DOCUMENTS_READABLE: True,
        names.NOTHING_LOST: True,
        names.EVERY_TEXT_EMBEDDED: True,
        names.VECTOR_ROWS_MATCH_CHUNKS: True,
        names.VECTORS_ARE_SOUND: True,
        names.VECTORS_HAVE_ONE_IDENTITY: True,
        names.BM25_ROWS_MATCH_CHUNKS: True,
        names.EVALUATION_GATES: True,
        names.EVALUATION_NO_STEP_BACK: True,
        names.REFRESH_COSTS_THE_CHANGE: True,
        names.SNAPSHOT_IS_WHOLE: True,
    }


def test_a_second_run_with_nothing_changed_embeds_and_publishes_nothing(workspace: Workspace) -> None:
    workspace.corpus(yaml=YAML, files=PAGES)
    run_refresh(workspace.config(), settings(workspace), Silent())
    outcome = run_refresh(workspace.config(), settings(workspace), Silent())
    assert outcome.error is None
    assert outcome.reports["embeddings"].model_dump()["embedded"] == 0
    assert outcome.reports["snapshot"].model_dump()["published"] is False
    assert workspace.index().snapshot == 1


def test_an_unreadable_file_fails_a_check_that_blocks_nothing(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    yaml = YAML + "safety: {max_failed_fraction: 0.5}\n"
    workspace.corpus(yaml=yaml, files={**PAGES, "bad.md": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20})
    outcome = run_refresh(workspace.config(), settings(workspace), Silent())
    assert outcome.error is None
    checks = evaluations(instance, outcome.run_id)
    (check,) = [check for check in checks if check.check_name == names.DOCUMENTS_READABLE]
    assert not check.passed
    assert "bad.md" in (check.description or "")
    event = instance.get_latest_materialization_event(dg.AssetKey(["docs", "documents"]))
    assert event is not None
    assert event.asset_materialization is not None
    assert "bad.md" in str(event.asset_materialization.metadata["failures"].value)


def test_a_failed_blocking_check_publishes_nothing(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.corpus(yaml=YAML, files=PAGES)
    run_refresh(workspace.config(), settings(workspace), Silent())
    workspace.write("more.md", "# More\n\nAnother page.\n")
    # A row that no chunk stands behind, as a writer that bypasses the lock would leave it.
    vectors = workspace.context().store.table("vectors")
    assert vectors is not None
    vectors.add(vectors.search().limit(1).to_arrow())
    outcome = run_refresh(workspace.config(), settings(workspace), Silent())
    assert outcome.error is not None
    assert names.VECTOR_ROWS_MATCH_CHUNKS in outcome.error
    assert workspace.index().snapshot == 1


def test_an_error_of_ours_reaches_people_as_one_line(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    workspace.corpus(yaml=YAML)
    outcome = run_refresh(workspace.config(), settings(workspace), Silent())
    assert outcome.error is not None
    assert "lists no item" in outcome.error
    assert "\n" not in outcome.error
    run = instance.get_run_by_id(outcome.run_id)
    assert run is not None
    assert run.status == dg.DagsterRunStatus.FAILURE


def test_the_launchpad_can_ask_for_a_full_rebuild(workspace: Workspace) -> None:
    workspace.corpus(yaml=YAML, files=PAGES)
    definitions = build_definitions([workspace.config()], settings(workspace))
    job = definitions.resolve_job_def("refresh_docs")
    assert job.execute_in_process().success
    config = {"resources": {names.SETTINGS_RESOURCE: {"config": {"full": True, "data": str(workspace.data)}}}}
    assert job.execute_in_process(run_config=config).success
    assert workspace.index().snapshot == 2


class _StoppedWhileItIsSetUp(RefreshSettings):
    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        signal.raise_signal(signal.SIGTERM)


def test_a_signal_between_the_steps_stops_the_run_as_ctrl_c_does(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    workspace.corpus(yaml=YAML, files=PAGES)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_refresh(workspace.config(), _StoppedWhileItIsSetUp(data=str(workspace.data)), Silent())
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_events_of_a_run_tell_its_progress(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    workspace.corpus(yaml=YAML, files=PAGES)
    outcome = run_refresh(workspace.config(), settings(workspace), Silent())
    told = [entry.user_message for entry in instance.all_logs(outcome.run_id) if entry.dagster_event is None]
    assert any(line.startswith("docs/documents: 2 documents, 2 added") for line in told)
    assert any(line.startswith("docs/snapshot: snapshot 1 is served") for line in told)


@pytest.mark.parametrize(("names_of_corpora", "tagged"), [(("docs",), "docs"), (("docs", "faq"), None)])
def test_a_run_of_assets_without_a_job_is_one_of_their_corpus(
    workspace: Workspace, instance: dg.DagsterInstance, names_of_corpora: tuple[str, ...], tagged: str | None
) -> None:
    corpora = []
    for name in ("docs", "faq"):
        workspace.corpus(name, yaml="source: {path: files}\ngroup: support\n", files=PAGES)
        corpora.append(workspace.config(name))
    job = build_definitions(corpora, settings(workspace)).resolve_implicit_global_asset_job_def()
    selected = [dg.AssetKey([name, stage]) for name in names_of_corpora for stage in (names.DOCUMENTS, names.CHUNKS)]
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    result = job.execute_in_process(
        instance=instance,
        asset_selection=selected,
        run_config={**quiet, "execution": {"config": {"in_process": {}}}},
    )
    assert result.success
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.tags.get(names.CORPUS_TAG) == tagged
    assert run.tags.get(names.GROUP_TAG) == ("support" if tagged else None)


def test_the_served_snapshot_can_be_looked_after_while_a_refresh_is_at_work(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    workspace.corpus(files=PAGES)
    workspace.refresh()
    check = dg.AssetCheckKey(dg.AssetKey(["docs", names.SNAPSHOT]), names.SNAPSHOT_IS_WHOLE)
    alone = dg.define_asset_job("look", dg.AssetSelection.checks(check), executor_def=dg.in_process_executor)
    corpus = build_definitions([workspace.config()], settings(workspace))
    job = dg.Definitions.merge(corpus, dg.Definitions(jobs=[alone])).resolve_job_def("look")
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    lock = RefreshLock.acquire(workspace.context().store, "a refresh")
    try:
        result = job.execute_in_process(instance=instance, run_config=quiet, raise_on_error=False)
    finally:
        lock.release()
    (found,) = evaluations(instance, result.run_id)
    assert found.passed
