"""What people see in the Dagster UI, asked of a real `dagster dev`; and twenty corpora that are due in the same minute."""

from __future__ import annotations

import socket
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from rag_pipeline.orchestration import names
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.orchestration.dagster_dev import DagsterDev
from rag_pipeline_tests.orchestration.test_dagster import PAGES, YAML

pytestmark = pytest.mark.slow

ASSETS = """{assetNodes{assetKey{path} groupName description kinds isExecutable staleStatus
  staleCauses{reason} owners{...on TeamAssetOwner{team}} pools tags{key value}
  freshnessStatusInfo{freshnessStatus}
  metadataEntries{label}
  assetMaterializations(limit: 1){runId metadataEntries{__typename label
    ...on IntMetadataEntry{intValue} ...on FloatMetadataEntry{floatValue} ...on MarkdownMetadataEntry{mdStr}
    ...on TableSchemaMetadataEntry{schema{columns{name}}}
    ...on TableColumnLineageMetadataEntry{lineage{columnName columnDeps{columnName}}}}}
  assetObservations(limit: 5){metadataEntries{label}}
  assetChecksOrError{...on AssetChecks{checks{name description blocking
    executionForLatestMaterialization{status evaluation{success severity description}}}}}}}"""


def assets(dev: DagsterDev) -> dict[str, Any]:
    return {"/".join(node["assetKey"]["path"]): node for node in dev.ask(ASSETS).get("assetNodes", [])}


def entries(node: dict[str, Any]) -> dict[str, Any]:
    return {entry["label"]: entry for entry in node["assetMaterializations"][0]["metadataEntries"]}


def test_the_ui_tells_flow_health_cost_and_quality_of_a_corpus(workspace: Workspace) -> None:
    workspace.corpus(yaml=YAML, files=PAGES)
    workspace.corpus("broken", yaml="source: {path: files}\nchunking: {sise: 9}\n")
    with DagsterDev(workspace) as dev:
        dev.until(lambda: assets(dev), 60)
        assert dev.finished(dev.launch("refresh_docs")) == "SUCCESS"
        found = assets(dev)
        corpus = {key.split("/")[1]: node for key, node in found.items() if key.startswith("docs/")}
        assert corpus.keys() == {names.SOURCE, *names.STAGES}
        for stage, node in corpus.items():
            assert node["groupName"] == "docs"
            assert node["description"]
            assert node["kinds"]
            assert node["owners"] == [{"team": "docs"}]
            assert node["isExecutable"] == (stage != names.SOURCE)
            if stage != names.SOURCE:
                assert node["staleStatus"] == "FRESH", (stage, node["staleCauses"])
                assert "dagster/code_references" in {entry["label"] for entry in node["metadataEntries"]}
        assert corpus["source"]["assetObservations"]

        snapshot = entries(corpus["snapshot"])
        assert snapshot["documents_added"]["intValue"] == 2
        assert snapshot["embedded"]["intValue"] == 2
        assert snapshot["cost_usd"]["floatValue"] == 0
        assert snapshot["refresh_seconds"]["floatValue"] > 0
        assert "guide.md" in entries(corpus["documents"])["changes"]["mdStr"]
        vectors = entries(corpus["vector_table"])
        columns = {column["name"] for column in vectors["dagster/column_schema"]["schema"]["columns"]}
        assert {"text", "vector", "source"} <= columns
        traced = {dep["columnName"] for dep in vectors["dagster/column_lineage"]["lineage"]}
        assert traced == columns

        checks = {check["name"]: check for node in corpus.values() for check in node["assetChecksOrError"].get("checks", [])}
        assert len(checks) == 11
        for check in checks.values():
            assert check["description"]
            assert check["executionForLatestMaterialization"]["status"] == "SUCCEEDED", check
        assert not checks[names.DOCUMENTS_READABLE]["blocking"]
        assert checks[names.SNAPSHOT_IS_WHOLE]["blocking"]
        dev.until(lambda: fresh(assets(dev)["docs/snapshot"]), 120)

        broken = dev.until(lambda: evaluated(assets(dev)["broken/corpus_yaml"]), 90)
        assert broken["success"] is False
        assert broken["severity"] == "ERROR"
        assert "chunking.sise: unknown key" in broken["description"]

        # A changed source is unsynced until it is refreshed, as soon as somebody has looked at it.
        before = entries(found["docs/snapshot"])["hash"]
        assert dev.finished(dev.launch("refresh_docs")) == "SUCCESS"
        again = assets(dev)
        assert entries(again["docs/snapshot"])["hash"] == before
        assert {node["staleStatus"] for key, node in again.items() if key.startswith("docs/")} <= {"FRESH", None}


def fresh(node: dict[str, Any]) -> bool:
    info = node["freshnessStatusInfo"]
    return bool(info) and info["freshnessStatus"] == "HEALTHY"


def evaluated(node: dict[str, Any]) -> dict[str, Any] | None:
    (check,) = node["assetChecksOrError"]["checks"]
    execution = check["executionForLatestMaterialization"]
    evaluation: dict[str, Any] | None = execution["evaluation"] if execution else None
    return evaluation


def test_a_changed_source_is_refreshed_once(workspace: Workspace) -> None:
    yaml = "source: {path: files}\nschedule: {enabled: false, on_change: true, on_change_minutes: 0}\n"
    workspace.corpus(yaml=yaml, files=PAGES)
    with DagsterDev(workspace) as dev:
        dev.until(lambda: len(dev.runs()) == 1, 180)
        assert dev.finished(dev.runs()[0]["runId"]) == "SUCCESS"
        workspace.write("more.md", "# More\n\nAnother page.\n")
        dev.until(lambda: len(dev.runs()) == 2, 180)
        assert dev.finished(dev.runs()[0]["runId"]) == "SUCCESS"
        time.sleep(75)
        assert len(dev.runs()) == 2, "one run a change, however often the sensor has looked since"
        assert workspace.index().snapshot == 2


def test_twenty_corpora_that_are_due_in_the_same_minute_all_finish_under_the_limits(workspace: Workspace) -> None:
    """One of them has no source, one asks a provider that does not answer, one runs its stages in processes of their own."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        dead = closed.getsockname()[1]
    due = datetime.now(timezone.utc) + timedelta(minutes=3)
    schedule = f'schedule: {{cron: "{due.minute} {due.hour} * * *"}}\n'
    for number in range(20):
        yaml = "source: {path: files}\n" + schedule
        if number == 3:
            yaml = "source: {path: nowhere}\n" + schedule
        if number == 7:
            yaml += (
                "embedding: {provider: openai, model: stub, dimensions: 16, retry_seconds: 5, timeout_seconds: 2, "
                f"api_base: 'http://127.0.0.1:{dead}/v1'}}\n"
            )
        if number == 11:
            yaml += "execution: {executor: multiprocess}\n"
        workspace.corpus(f"corpus_{number:02}", yaml=yaml, files=PAGES)
    most = 0
    with DagsterDev(workspace, OPENAI_API_KEY="sk-test-" + "0" * 20) as dev:
        ended: list[dict[str, Any]] = []

        def look() -> bool:
            nonlocal most, ended
            runs = dev.runs()
            most = max(most, sum(run["status"] in ("STARTING", "STARTED", "CANCELING") for run in runs))
            ended = [run for run in runs if run["status"] in ("SUCCESS", "FAILURE")]
            return len(ended) >= 20

        dev.until(look, 900)
        runs = dev.runs()
    assert len(runs) == 20, "each was asked for once, and a failed stage is no reason to run everything again"
    assert most <= 4, "as dagster.yaml allows"
    failed = sorted(run["jobName"] for run in ended if run["status"] == "FAILURE")
    assert failed == ["refresh_corpus_03", "refresh_corpus_07"]
    for number in set(range(20)) - {3, 7}:
        assert workspace.index(f"corpus_{number:02}").snapshot == 1
    assert {run["tags"][names.TRIGGER_TAG] for run in runs} == {"schedule"}


def test_a_group_is_refreshed_by_its_job(workspace: Workspace) -> None:
    for name in ("first", "second", "third"):
        group = "" if name == "third" else "group: support\n"
        workspace.corpus(name, yaml=f"source: {{path: files}}\n{group}", files=PAGES)
    with DagsterDev(workspace) as dev:
        asking = dev.launch("refresh_group_support")
        asked = dev.until(lambda: [run for run in dev.runs() if names.ASKED_BY_TAG in run["tags"]][1:] and dev.runs(), 120)
        for run in asked:
            assert dev.finished(run["runId"]) == "SUCCESS"
    assert {run["jobName"] for run in asked} == {"refresh_group_support", "refresh_first", "refresh_second"}
    assert {run["tags"][names.ASKED_BY_TAG] for run in asked if run["runId"] != asking} == {asking}
