"""Many corpora in one location: groups, one that is faulty, how each is executed, and what is tried again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rag_pipeline.corpus_files import load_sound_corpora
from rag_pipeline.errors import ConfigError, ConflictError, ProviderError, StoreError
from rag_pipeline.orchestration import RefreshSettings, build_definitions, names
from rag_pipeline.orchestration.failures import failures_for_people
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.orchestration.instances import QUIET
from rag_pipeline_tests.orchestration.test_dagster import PAGES, settings


def job_names(definitions: dg.Definitions) -> set[str]:
    return {job.name for job in definitions.resolve_all_job_defs()} - {"__ASSET_JOB"}


def test_corpora_of_a_group_have_a_job_and_all_corpora_have_one(workspace: Workspace) -> None:
    for name, group in (("first", "support"), ("second", "support"), ("third", "sales")):
        workspace.corpus(name, yaml=f"source: {{path: files}}\ngroup: {group}\n")
    workspace.corpus("alone")
    corpora, _ = load_sound_corpora(workspace.corpora)
    assert job_names(build_definitions(corpora)) == {
        *(f"refresh_{name}" for name in ("first", "second", "third", "alone")),
        "refresh_group_support",
        "refresh_group_sales",
        "refresh_all_corpora",
    }


@pytest.mark.parametrize(
    ("job", "refreshed"),
    [("refresh_group_support", {"first", "second"}), ("refresh_all_corpora", {"first", "second", "third"})],
)
def test_a_group_is_refreshed_by_a_run_a_corpus_with_the_options_that_were_given(
    workspace: Workspace, instance: dg.DagsterInstance, job: str, refreshed: set[str]
) -> None:
    for name, group in (("first", "support"), ("second", "support"), ("third", "sales")):
        workspace.corpus(name, yaml=f"source: {{path: files}}\ngroup: {group}\n", files=PAGES)
    corpora, _ = load_sound_corpora(workspace.corpora)
    repository = build_definitions(corpora, settings(workspace)).get_repository_def()
    options = {"ops": {f"ask_to_{job}": {"config": {"full": True}}}}
    asking = repository.get_job(job).execute_in_process(instance=instance, run_config={**QUIET, **options})
    context = dg.build_run_status_sensor_context(
        names.GROUPS_SENSOR,
        asking.get_run_success_event(),
        instance,
        instance.get_run_by_id(asking.run_id),
        repository_def=repository,
    )
    sensor: Any = repository.get_sensor_def(names.GROUPS_SENSOR)
    requests = list(sensor(context))
    assert {request.job_name for request in requests} == {f"refresh_{name}" for name in refreshed}
    for request in requests:
        assert request.tags[names.ASKED_BY_TAG] == asking.run_id
        assert request.tags["corpus"] in refreshed
        assert request.run_config["resources"]["refresh_settings"]["config"] == {"full": True}
        run = repository.get_job(request.job_name).execute_in_process(
            instance=instance,
            run_config={
                **QUIET,
                "resources": {"refresh_settings": {"config": {"full": True, "data": str(workspace.data)}}},
            },
        )
        assert run.success


@pytest.mark.parametrize("name", ["group_support", "all_corpora"])
def test_a_corpus_named_like_the_job_of_a_group_leaves_the_others_alone(workspace: Workspace, name: str) -> None:
    workspace.corpus(name, yaml="source: {path: files}\ngroup: support\n")
    workspace.corpus("good", yaml="source: {path: files}\ngroup: support\n")
    corpora = [workspace.config(name), workspace.config("good")]
    definitions = build_definitions(corpora)
    assert job_names(definitions) == {"refresh_good", "refresh_group_support", "refresh_all_corpora"}
    (spec,) = [spec for spec in definitions.resolve_all_asset_specs() if spec.group_name == names.FAULTY_GROUP]
    assert f"its job would be called refresh_{name}, as" in (spec.description or "")
    with pytest.raises(ConfigError, match=f"its job would be called refresh_{name}, as the one that refreshes several"):
        build_definitions(corpora, strict=True)


def test_two_corpora_of_one_name_are_refused(workspace: Workspace) -> None:
    workspace.corpus()
    with pytest.raises(ConfigError, match="2 corpora are called docs"):
        build_definitions([workspace.config(), workspace.config()])


def test_groups_have_names_that_jobs_can_have(workspace: Workspace) -> None:
    workspace.corpus(yaml="source: {path: files}\ngroup: Customer Support\n")
    with pytest.raises(ConfigError, match=r"corpus\.yaml: group: expected a name of small letters"):
        workspace.config()


def faulty(workspace: Workspace) -> dg.Definitions:
    workspace.corpus("good", files=PAGES)
    workspace.corpus("bad", yaml="source: {path: files}\nchunking: {sise: 9}\n")
    workspace.corpus("Bad Name")
    corpora, found = load_sound_corpora(workspace.corpora)
    return build_definitions(corpora, settings(workspace), found)


def test_a_corpus_with_a_fault_leaves_the_others_alone_and_shows_the_fault(
    workspace: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    definitions = faulty(workspace)
    assert {"refresh_good", "refresh_all_corpora"} <= job_names(definitions)
    assert definitions.resolve_job_def("refresh_good").execute_in_process(run_config=QUIET).success
    specs = {spec.key.to_user_string(): spec for spec in definitions.resolve_all_asset_specs()}
    assert {"bad/corpus_yaml", "Bad-20-Name/corpus_yaml"} <= specs.keys()
    spec = specs["bad/corpus_yaml"]
    assert spec.group_name == names.FAULTY_GROUP
    assert "chunking.sise: unknown key; expected one of strategy, size, overlap" in (spec.description or "")
    assert "left out: " in caplog.text
    assert "chunking.sise" in caplog.text


def test_a_fault_becomes_a_failed_check_once_without_a_run(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    repository = faulty(workspace).get_repository_def()
    sensor = repository.get_sensor_def(names.FAULTS_SENSOR)
    assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
    first = sensor.evaluate_tick(dg.build_sensor_context(instance, repository_def=repository))
    checks = {event.asset_key.to_user_string(): event for event in first.asset_events}
    assert checks.keys() == {"bad/corpus_yaml", "Bad-20-Name/corpus_yaml"}
    bad = checks["bad/corpus_yaml"]
    assert isinstance(bad, dg.AssetCheckEvaluation)
    assert (bad.passed, bad.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "chunking.sise" in (bad.description or "")
    second = sensor.evaluate_tick(dg.build_sensor_context(instance, first.cursor, repository_def=repository))
    assert not second.asset_events


def test_materializing_a_faulty_corpus_fails_with_the_fault(workspace: Workspace) -> None:
    definitions = faulty(workspace)
    (asset,) = [
        asset
        for asset in definitions.assets or ()
        if isinstance(asset, dg.AssetsDefinition) and asset.keys == {dg.AssetKey(["bad", "corpus_yaml"])}
    ]
    with pytest.raises(dg.Failure, match=r"chunking\.sise"):
        dg.materialize([asset], instance=dg.DagsterInstance.ephemeral(), run_config=QUIET)


def test_what_dagster_alone_refuses_is_a_fault_of_that_corpus(workspace: Workspace) -> None:
    workspace.corpus("good", files=PAGES)
    # The configuration does not know how many days February has.
    workspace.corpus("bad", yaml='source: {path: files}\nschedule: {cron: "0 0 30 2 *"}\n')
    corpora, found = load_sound_corpora(workspace.corpora)
    assert not found
    definitions = build_definitions(corpora)
    assert "refresh_good" in job_names(definitions)
    assert "refresh_bad" not in job_names(definitions)
    keys = {key.to_user_string() for key in definitions.resolve_all_asset_keys()}
    assert "bad/corpus_yaml" in keys
    with pytest.raises(ConfigError, match=r"bad.corpus\.yaml: Dagster refuses it: .*cron"):
        build_definitions(corpora, strict=True)


@pytest.mark.parametrize("strict", [False, True])
def test_strict_loading_stops_at_a_fault_and_other_loading_does_not(workspace: Workspace, strict: bool) -> None:
    faulty(workspace)
    environment = workspace.environment | ({"RAG_PIPELINE_STRICT": "1"} if strict else {})
    command = [str(Path(sys.executable).with_name("dagster")), "definitions", "validate", "-m", "rag_pipeline.definitions"]
    done = subprocess.run(command, env=environment, cwd=workspace.root, text=True, capture_output=True, check=False)
    assert "chunking.sise: unknown key" in done.stdout + done.stderr
    assert (done.returncode != 0) == strict


def test_each_corpus_chooses_its_executor(workspace: Workspace) -> None:
    workspace.corpus("first")
    workspace.corpus("second", yaml="source: {path: files}\nexecution: {executor: multiprocess}\n")
    definitions = build_definitions([workspace.config("first"), workspace.config("second")])
    executors = {name: definitions.resolve_job_def(f"refresh_{name}").executor_def.name for name in ("first", "second")}
    assert executors == {"first": "in_process", "second": "multiprocess"}


def test_assets_that_are_materialized_without_a_job_share_a_process(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.corpus()
    monkeypatch.setenv("RAG_PIPELINE_CORPORA", str(workspace.corpora))
    from rag_pipeline.definitions import definitions

    assert definitions().resolve_implicit_global_asset_job_def().executor_def.name == "in_process"


@pytest.mark.parametrize(
    ("error", "tried_before", "again"),
    [
        (ConflictError("another process published"), 0, True),
        (ConflictError("another process published"), 1, False),
        (ProviderError("asked for five minutes already"), 0, False),
        (StoreError("damaged"), 0, False),
        (OSError(28, "No space left on device"), 0, False),
    ],
)
def test_only_what_may_pass_by_itself_is_tried_again_and_once(error: Exception, tried_before: int, again: bool) -> None:
    expected = dg.RetryRequested if again else dg.Failure
    with pytest.raises(expected) as raised, failures_for_people(RefreshSettings(), tried_before):
        raise error
    if isinstance(raised.value, dg.Failure):
        assert "No space" in (raised.value.description or "") or str(error) == raised.value.description
        assert not raised.value.allow_retries


def test_a_refresh_that_finds_the_corpus_locked_tries_once_more(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    from rag_pipeline.index.lock import RefreshLock

    workspace.corpus(files=PAGES)
    lock = RefreshLock.acquire(workspace.context().store, "somebody else")
    job = build_definitions(
        [workspace.config()], RefreshSettings(data=str(workspace.data), retry_seconds=0)
    ).resolve_job_def("refresh_docs")
    try:
        result = job.execute_in_process(instance=instance, run_config=QUIET, raise_on_error=False)
    finally:
        lock.release()
    kinds = [event.event_type_value for event in result.all_events if event.step_key == "docs__documents"]
    assert kinds.count("STEP_UP_FOR_RETRY") == 1
    assert kinds[-1] == "STEP_FAILURE"
    assert job.execute_in_process(instance=instance, run_config=QUIET).success
