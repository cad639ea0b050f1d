"""The job of a corpus refuses a candidate that was made worse: its checks say why, and the old snapshot stays served."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from rag_pipeline.orchestration import RefreshSettings, build_definitions, names
from rag_pipeline.orchestration.run import run_refresh
from rag_pipeline.refresh import Silent
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.evaluation.worse import BASE, LENIENT, QUERY_SET, VERBS, corpus, lose_half
from rag_pipeline_tests.orchestration.test_dagster import evaluations, settings

CHECKS = (names.EVALUATION_GATES, names.EVALUATION_NO_STEP_BACK)


def run_job(workspace: Workspace, instance: dg.DagsterInstance, **options: Any) -> dg.ExecuteInProcessResult:
    chosen = RefreshSettings(data=str(workspace.data), **options)
    job = build_definitions([workspace.config()], chosen).resolve_job_def("refresh_docs")
    return job.execute_in_process(instance=instance, raise_on_error=False)


def checks(instance: dg.DagsterInstance, run_id: str) -> dict[str, Any]:
    return {check.check_name: check for check in evaluations(instance, run_id) if check.check_name in CHECKS}


def test_the_figures_of_a_run_are_numbers_of_the_evaluation_asset(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    corpus(workspace)
    result = run_job(workspace, instance)
    assert result.success
    event = instance.get_latest_materialization_event(dg.AssetKey(["docs", names.EVALUATION]))
    assert event is not None
    assert event.asset_materialization is not None
    figures = {name: value.value for name, value in event.asset_materialization.metadata.items()}
    assert (figures["queries"], figures["searches"]) == (len(VERBS), 3 * len(VERBS))
    for mode in ("bm25", "vector", "hybrid"):
        assert isinstance(figures[f"{mode} ndcg@10"], float)
        assert isinstance(figures[f"{mode} recall@100"], float)
    assert {name: check.passed for name, check in checks(instance, result.run_id).items()} == dict.fromkeys(CHECKS, True)


@pytest.mark.parametrize("harm", ["half of the documents", "stemmer"])
def test_a_candidate_made_worse_is_refused_and_the_old_snapshot_stays_served(
    workspace: Workspace, instance: dg.DagsterInstance, harm: str
) -> None:
    folder = corpus(workspace)
    assert run_job(workspace, instance).success
    if harm == "stemmer":
        workspace.corpus(yaml=BASE + LENIENT + QUERY_SET + "lexical: {language: german}\n")
    else:
        lose_half(folder)

    refused = run_job(workspace, instance)
    assert not refused.success
    found = checks(instance, refused.run_id)
    assert (found[names.EVALUATION_GATES].passed, found[names.EVALUATION_NO_STEP_BACK].passed) == (True, False)
    step_back = found[names.EVALUATION_NO_STEP_BACK]
    assert step_back.severity == dg.AssetCheckSeverity.ERROR
    assert "'installing' ndcg@10 1.00 -> 0.00" in step_back.description
    assert "--accept-drop" in step_back.description
    assert step_back.metadata["ndcg@10 change"].value < -0.02
    assert dg.AssetKey(["docs", names.SNAPSHOT]) not in {
        event.asset_key for event in refused.all_events if event.is_step_materialization
    }
    assert workspace.index().snapshot == 1
    assert workspace.index().search("installing", mode="bm25")[0].document_id == "p00.md"

    accepted = run_job(workspace, instance, accept_drop=True)
    assert accepted.success
    assert workspace.index().snapshot == 2
    record = workspace.index().manifest.evaluation
    assert record is not None
    assert "ndcg@10 1.000 -> " in record.accepted[0]
    step_back = checks(instance, accepted.run_id)[names.EVALUATION_NO_STEP_BACK]
    assert (step_back.passed, step_back.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert run_job(workspace, instance).success, "what was accepted once must not fail the next run"


def test_an_absolute_gate_refuses_through_its_own_check(workspace: Workspace) -> None:
    folder = corpus(workspace, BASE + LENIENT + QUERY_SET.replace("mode", "gates: {ndcg@10: 0.9}, mode"))
    lose_half(folder)
    outcome = run_refresh(workspace.config(), settings(workspace), Silent())
    assert outcome.error is not None
    refusal = f"docs: nothing was published, a check failed: {names.EVALUATION_GATES}: bm25, 24 queries"
    assert outcome.error.startswith(refusal)
    assert "snapshot" not in outcome.reports
