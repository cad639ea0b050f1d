"""One corpus as Dagster definitions: its assets and checks, a job that refreshes it, and a schedule."""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration import names
from rag_pipeline.orchestration.assets import build_assets
from rag_pipeline.orchestration.checks import build_checks
from rag_pipeline.orchestration.resources import RefreshSettings


def build_corpus_definitions(corpus: CorpusConfig) -> dg.Definitions:
    """The definitions of one corpus, without resources: merge them with some that give `refresh_settings`."""
    job = dg.define_asset_job(
        names.job_name(corpus.name),
        selection=dg.AssetSelection.groups(corpus.name),
        description=f"Refresh the corpus {corpus.name}: reconcile it with its source and publish what changed.",
        tags={names.CORPUS_TAG: corpus.name},
        # A process a step costs seconds of start-up each; runs of different corpora have processes of their own anyway.
        executor_def=dg.in_process_executor,
    )
    schedule = dg.ScheduleDefinition(
        name=names.schedule_name(corpus.name),
        job=job,
        cron_schedule=corpus.schedule.cron,
        execution_timezone=corpus.schedule.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING if corpus.schedule.enabled else dg.DefaultScheduleStatus.STOPPED,
        description=f"Refreshes {corpus.name} as its corpus.yaml says.",
        tags={names.CORPUS_TAG: corpus.name},
    )
    return dg.Definitions(assets=build_assets(corpus), asset_checks=build_checks(corpus), jobs=[job], schedules=[schedule])


def build_definitions(corpora: Iterable[CorpusConfig], settings: RefreshSettings | None = None) -> dg.Definitions:
    """All corpora, and the settings that they share."""
    resources = dg.Definitions(resources={names.SETTINGS_RESOURCE: settings or RefreshSettings()})
    return dg.Definitions.merge(resources, *map(build_corpus_definitions, corpora))
