"""Old runs are purged, but for those that an asset's page shows as its last ones."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rag_pipeline.errors import ConfigError
from rag_pipeline.orchestration import build_upkeep_definitions, names, purge


@dg.asset
def table() -> dg.MaterializeResult[Any]:
    print("printed by the step")  # noqa: T201
    return dg.MaterializeResult(metadata={"rows": 3})


@dg.job
def other() -> None:
    @dg.op
    def work() -> None:
        return

    work()


def materialise(instance: dg.DagsterInstance, days_ago: float) -> str:
    return aged(instance, dg.materialize([table], instance=instance).run_id, days_ago)


def run_other(instance: dg.DagsterInstance, days_ago: float) -> str:
    """A run of a job without assets that has ended."""
    return aged(instance, instance.create_run_for_job(other, status=dg.DagsterRunStatus.SUCCESS).run_id, days_ago)


def aged(instance: dg.DagsterInstance, run_id: str, days_ago: float) -> str:
    """Make a run as old as the test wants it; Dagster has no call for that."""
    from sqlalchemy import text

    created = (datetime.now(timezone.utc) - timedelta(days=days_ago)).replace(tzinfo=None)
    with instance.run_storage.connect() as connection:  # type: ignore[attr-defined]
        statement = text("UPDATE runs SET create_timestamp = :created WHERE run_id = :run_id")
        connection.execute(statement, {"created": created.strftime("%Y-%m-%d %H:%M:%S.%f"), "run_id": run_id})
    return run_id


def run_purge(instance: dg.DagsterInstance, **config: Any) -> dg.ExecuteInProcessResult:
    job = build_upkeep_definitions().resolve_job_def(names.PURGE_JOB)
    return job.execute_in_process(
        instance=instance, run_config={"ops": {"delete_old_runs": {"config": config}}}, raise_on_error=False
    )


def left(instance: dg.DagsterInstance) -> set[str]:
    return {run.run_id for run in instance.get_runs() if run.job_name != names.PURGE_JOB}


def test_old_runs_go_and_new_ones_stay(instance: dg.DagsterInstance) -> None:
    old, new = run_other(instance, 100), run_other(instance, 80)
    assert run_purge(instance).success
    assert left(instance) == {new}
    assert instance.get_run_by_id(old) is None


def test_the_run_that_last_materialised_an_asset_stays_however_old_it_is(instance: dg.DagsterInstance) -> None:
    materialise(instance, 300)
    last = materialise(instance, 200)
    assert run_purge(instance).success
    assert left(instance) == {last}
    event = instance.get_latest_materialization_event(dg.AssetKey("table"))
    assert event is not None
    assert event.asset_materialization is not None
    assert event.asset_materialization.metadata["rows"].value == 3


def test_a_run_at_work_stays(instance: dg.DagsterInstance) -> None:
    run_other(instance, 100)
    started = aged(instance, instance.create_run_for_job(other, status=dg.DagsterRunStatus.STARTED).run_id, 100)
    assert run_purge(instance).success
    assert left(instance) == {started}


def test_nothing_of_a_purged_run_is_left_on_the_disk(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    first, last = materialise(instance, 300), materialise(instance, 200)
    held = lambda run_id: [path for path in (tmp_path / "dagster").rglob(f"*{run_id}*")]  # noqa: C416, E731
    assert held(first)
    assert run_purge(instance).success
    assert not held(first)
    assert held(last)


def test_a_dry_run_counts_and_deletes_nothing(instance: dg.DagsterInstance) -> None:
    old = {run_other(instance, 100), run_other(instance, 101)}
    result = run_purge(instance, dry_run=True)
    assert left(instance) == old
    assert figures(result) == {"runs": 2, "deleted": 0, "older_than_days": 90}


def test_what_a_purge_did_is_told_by_the_run(instance: dg.DagsterInstance) -> None:
    run_other(instance, 20)
    assert figures(run_purge(instance, keep_days=10)) == {"runs": 1, "deleted": 1, "older_than_days": 10}


def figures(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    (output,) = [event for event in result.all_events if event.event_type == dg.DagsterEventType.STEP_OUTPUT]
    return {name: value.value for name, value in output.step_output_data.metadata.items()}


def test_more_runs_than_a_page_holds_are_all_found(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purge, "_PAGE", 2)
    old = [run_other(instance, days) for days in (105, 104, 103, 102, 101)]
    assert purge.old_runs(instance, datetime.now(timezone.utc) - timedelta(days=90)) == old


def test_the_days_come_from_the_environment(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(purge.KEEP_VARIABLE, "7")
    run_other(instance, 8)
    kept = run_other(instance, 6)
    assert run_purge(instance).success
    assert left(instance) == {kept}


@pytest.mark.parametrize("wrong", ["0", "-1", "a week", "1.5"])
def test_days_that_are_none_are_refused(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(purge.KEEP_VARIABLE, wrong)
    with pytest.raises(ConfigError, match=f"{purge.KEEP_VARIABLE}={wrong}"):
        purge.keep_days()


def test_its_schedule_is_off_until_somebody_switches_it_on() -> None:
    (schedule,) = build_upkeep_definitions().schedules or []
    assert isinstance(schedule, dg.ScheduleDefinition)
    assert (schedule.name, schedule.default_status) == (names.PURGE_SCHEDULE, dg.DefaultScheduleStatus.STOPPED)
