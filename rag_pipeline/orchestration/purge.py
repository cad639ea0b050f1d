"""The purge of old runs, which Dagster itself keeps for good: their records, event logs and captured output.

The runs that an asset's page shows as its last ones are kept however old they are, and so are runs at work. What is deleted
is gone from the plots of the asset's page.
"""

# Dagster reads the annotations of ops and of their configuration as objects, so that they cannot be postponed here.
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import dagster as dg

from rag_pipeline.errors import ConfigError
from rag_pipeline.orchestration import names

KEEP_VARIABLE = "RAG_PIPELINE_KEEP_RUNS_DAYS"
KEEP_DAYS = 90

_PAGE = 1000
_PROGRESS_EVERY = 100
_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


def keep_days() -> int:
    """How many days RAG_PIPELINE_KEEP_RUNS_DAYS says that runs are kept.

    Raises:
        ConfigError: it is no whole number of 1 or more.
    """
    value = os.environ.get(KEEP_VARIABLE, "").strip()
    if not value:
        return KEEP_DAYS
    if not value.isdecimal() or int(value) < 1:
        raise ConfigError(f"{KEEP_VARIABLE}={value}: expected a whole number of days, 1 or more")
    return int(value)


def old_runs(instance: dg.DagsterInstance, before: datetime) -> list[str]:
    """The runs that a purge deletes, the oldest first: ended, created before ``before``, and not an asset's last one."""
    shown = _shown_now(instance)
    filters = dg.RunsFilter(statuses=_ENDED, created_before=before)
    found: list[str] = []
    page = instance.get_run_ids(filters, limit=_PAGE)
    while page:
        found += page
        page = instance.get_run_ids(filters, cursor=page[-1], limit=_PAGE)
    return [run_id for run_id in reversed(found) if run_id not in shown]


def _shown_now(instance: dg.DagsterInstance) -> set[str]:
    shown: set[str | None] = set()
    for record in instance.get_asset_records(instance.get_asset_keys()):
        entry = record.asset_entry
        shown.add(entry.last_run_id)
        shown.update(last.run_id for last in (entry.last_materialization_record, entry.last_observation_record) if last)
    return {run_id for run_id in shown if run_id is not None}


def delete_run(instance: dg.DagsterInstance, run_id: str) -> None:
    """Delete what the instance holds of a run: captured output, record, events."""
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    instance.delete_run(run_id)
    # The SQLite storage has a file a run, which it empties but leaves behind.
    file_of_run = getattr(instance.event_log_storage, "path_for_shard", None)
    if file_of_run is not None:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{file_of_run(run_id)}{suffix}").unlink(missing_ok=True)


class PurgeConfig(dg.Config):
    """``keep_days``: runs of so many days stay; by default as RAG_PIPELINE_KEEP_RUNS_DAYS says, or 90.

    ``dry_run`` counts and deletes nothing.
    """

    keep_days: int | None = None
    dry_run: bool = False


def _purge(context: dg.OpExecutionContext, config: PurgeConfig) -> None:
    days = keep_days() if config.keep_days is None else config.keep_days
    if days < 1:
        raise dg.Failure(description=f"keep_days: {days}: expected 1 or more", allow_retries=False)
    runs = old_runs(context.instance, datetime.now(timezone.utc) - timedelta(days=days))
    for number, run_id in enumerate([] if config.dry_run else runs, start=1):
        delete_run(context.instance, run_id)
        if number % _PROGRESS_EVERY == 0:
            context.log.info("%d of %d runs deleted", number, len(runs))
    context.add_output_metadata({"runs": len(runs), "deleted": 0 if config.dry_run else len(runs), "older_than_days": days})


def purge_job() -> dg.JobDefinition:
    """The job that deletes old runs."""
    purge = dg.op(
        name="delete_old_runs",
        description=f"Deletes runs older than {KEEP_VARIABLE} days (default {KEEP_DAYS}), but for the last ones of assets.",
    )(_purge)

    @dg.job(
        name=names.PURGE_JOB,
        executor_def=dg.in_process_executor,
        description="Delete old runs of all jobs, which Dagster keeps for good otherwise. Plots lose what is deleted.",
    )
    def job() -> None:
        purge()

    return job


def purge_schedule(job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """Weekly, and off until somebody switches it on: nobody's history is deleted without having been asked for."""
    return dg.ScheduleDefinition(
        name=names.PURGE_SCHEDULE,
        job=job,
        cron_schedule="30 4 * * 0",
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description="Deletes old runs each Sunday. Off until you switch it on.",
    )
