"""A run that fails is told to a webhook: what it is told, how stubbornly, and that its address is told to nobody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from rag_pipeline.errors import ConfigError, ProviderError
from rag_pipeline.orchestration import alerts, build_definitions, build_upkeep_definitions, names
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.webhook_server import SECRET, Webhook


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    monkeypatch.setattr(alerts, "_FIRST_PAUSE_SECONDS", 0.01)
    with Webhook() as served:
        monkeypatch.setenv(alerts.WEBHOOK_VARIABLE, served.address)
        monkeypatch.setenv(alerts.UI_VARIABLE, "https://dagster.example.org/")
        yield served


def failed_refresh(workspace: Workspace, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("RAG_PIPELINE_DATA", str(workspace.data))
    job = build_definitions([workspace.config()]).resolve_job_def("refresh_docs")
    result = job.execute_in_process(instance=instance, raise_on_error=False, tags={names.CORPUS_TAG: "docs"})
    assert not result.success
    return result


def evaluate(result: Any, instance: dg.DagsterInstance) -> None:
    """Evaluate the sensor as the daemon does, with the run's own failure event."""
    (event,) = [event for event in result.all_events if event.event_type == dg.DagsterEventType.PIPELINE_FAILURE]
    sensor = alerts.alert_sensor()
    assert sensor is not None
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    context = dg.build_run_status_sensor_context(
        sensor_name=sensor.name, dagster_event=event, dagster_instance=instance, dagster_run=run
    ).for_run_failure()
    sensor(context)


def test_without_a_webhook_there_is_no_alert_sensor() -> None:
    sensors = build_upkeep_definitions().sensors or []
    assert [sensor.name for sensor in sensors] == [names.DEAD_RUNS_SENSOR]


def test_with_one_it_is_on_from_the_start(webhook: Webhook) -> None:
    sensors = {sensor.name: sensor for sensor in build_upkeep_definitions().sensors or []}
    sensor = sensors[names.ALERT_SENSOR]
    assert isinstance(sensor, dg.SensorDefinition)
    assert sensor.default_status == dg.DefaultSensorStatus.RUNNING


@pytest.mark.parametrize("wrong", ["hooks.slack.com/services/x", "ftp://host/x", "https:///x", "http://host:port/x"])
def test_an_address_that_is_none_is_refused_without_being_shown(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(alerts.WEBHOOK_VARIABLE, wrong)
    with pytest.raises(ConfigError, match=alerts.WEBHOOK_VARIABLE) as refused:
        build_upkeep_definitions()
    assert wrong not in str(refused.value)


def test_a_failed_refresh_is_told_with_corpus_stage_error_and_link(
    workspace: Workspace, instance: dg.DagsterInstance, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.corpus()
    result = failed_refresh(workspace, instance, monkeypatch)
    evaluate(result, instance)
    (told,) = webhook.received
    body = told["body"]
    assert told["type"] == "application/json"
    assert (body["corpus"], body["stage"], body["job"], body["run_id"]) == (
        "docs",
        "documents",
        "refresh_docs",
        result.run_id,
    )
    assert "lists no item" in body["error"]
    assert "\n" not in body["error"]
    assert body["url"] == f"https://dagster.example.org/runs/{result.run_id}"
    assert body["text"].startswith("Refresh of docs failed at documents: ")
    assert body["text"].endswith(body["url"])
    assert body["status"] == "failed"


def test_an_alert_names_every_file_that_stopped_a_refresh(
    workspace: Workspace, instance: dg.DagsterInstance, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {f"page {number:02}.pdf": b"%PDF-1.7 cut off" for number in range(12)}
    workspace.corpus(files={"a.md": "# A\n\nOne page.\n", **broken})
    evaluate(failed_refresh(workspace, instance, monkeypatch), instance)
    (told,) = webhook.received
    assert all(f"\n  {name}: " in told["body"]["error"] for name in broken)


def test_a_check_that_refuses_publication_is_told_by_its_name(
    workspace: Workspace, instance: dg.DagsterInstance, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.corpus(files={"a.md": "# A\n\nOne page.\n"})
    workspace.refresh()
    workspace.write("b.md", "# B\n\nAnother page.\n")
    vectors = workspace.context().store.table("vectors")
    assert vectors is not None
    vectors.add(vectors.search().limit(1).to_arrow())
    evaluate(failed_refresh(workspace, instance, monkeypatch), instance)
    (told,) = webhook.received
    assert told["body"]["stage"] == "vector_table"
    assert told["body"]["error"].startswith(f"{names.VECTOR_ROWS_MATCH_CHUNKS}: ")


def test_a_run_that_dagster_starts_again_is_told_as_such(
    workspace: Workspace, instance: dg.DagsterInstance, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.corpus()
    result = failed_refresh(workspace, instance, monkeypatch)
    instance.add_run_tags(result.run_id, {"dagster/will_retry": "true"})
    evaluate(result, instance)
    assert webhook.received[0]["body"]["will_retry"] is True
    assert "once more" in webhook.received[0]["body"]["text"]


def test_a_server_that_fails_for_a_while_is_asked_again(webhook: Webhook) -> None:
    webhook.answers = [500, 429, 503]
    alerts.post(webhook.address, {"text": "x"})
    assert [told["body"] for told in webhook.received] == [{"text": "x"}] * 4


@pytest.mark.parametrize(("answers", "asked"), [([404], 1), ([302], 1), ([500] * 9, 4)])
def test_what_cannot_be_delivered_is_an_error_that_names_the_host_alone(
    webhook: Webhook, answers: list[int], asked: int
) -> None:
    webhook.answers = list(answers)
    with pytest.raises(ProviderError, match=rf"127\.0\.0\.1 of {alerts.WEBHOOK_VARIABLE} answers {answers[0]}") as failed:
        alerts.post(webhook.address, {"text": "x"})
    assert len(webhook.received) == asked
    assert SECRET not in str(failed.value)


def test_a_server_that_is_not_there_is_an_error_that_names_the_host_alone(webhook: Webhook) -> None:
    webhook.close()
    with pytest.raises(ProviderError, match="cannot be reached") as failed:
        alerts.post(webhook.address, {"text": "x"})
    assert SECRET not in str(failed.value)


def test_secrets_of_the_environment_are_not_told(
    workspace: Workspace, instance: dg.DagsterInstance, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_PASSWORD", "hunter2-hunter2")

    @dg.op
    def leak() -> None:
        raise ValueError(f"cannot open postgres://u:hunter2-hunter2@host, told {webhook.address}")

    @dg.job
    def leaking() -> None:
        leak()

    result = leaking.execute_in_process(instance=instance, raise_on_error=False)
    evaluate(result, instance)
    assert webhook.received[0]["body"]["error"].startswith("ValueError: cannot open postgres")
    said = json.dumps(webhook.received[0]["body"])
    assert "hunter2" not in said
    assert SECRET not in said
