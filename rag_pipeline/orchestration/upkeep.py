"""What looks after the Dagster instance, beside the corpora: dead runs, alerts, and the purge of old runs."""

from __future__ import annotations

import dagster as dg

from rag_pipeline.orchestration.alerts import alert_sensor
from rag_pipeline.orchestration.dead_runs import dead_runs_sensor
from rag_pipeline.orchestration.purge import purge_job, purge_schedule


def build_upkeep_definitions() -> dg.Definitions:
    """Sensors and a job that a code location needs once, however many corpora it has.

    Raises:
        ConfigError: a variable about alerts is wrong.
    """
    alert, purge = alert_sensor(), purge_job()
    return dg.Definitions(
        jobs=[purge],
        schedules=[purge_schedule(purge)],
        sensors=[dead_runs_sensor(), *([alert] if alert is not None else [])],
    )
