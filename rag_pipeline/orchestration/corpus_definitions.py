"""Corpora as Dagster definitions: for each its assets and checks, a job and a schedule, and what serves all of them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.corpus_files import FaultyCorpus
from rag_pipeline.errors import ConfigError
from rag_pipeline.orchestration import names
from rag_pipeline.orchestration.assets import build_assets
from rag_pipeline.orchestration.changes import Watched, build_changes_sensor
from rag_pipeline.orchestration.checks import build_snapshot_check
from rag_pipeline.orchestration.faults import build_fault_definitions
from rag_pipeline.orchestration.groups import build_group_definitions
from rag_pipeline.orchestration.keys import CorpusKeys, KeyPrefix, parts_of
from rag_pipeline.orchestration.resources import RefreshSettings
from rag_pipeline.orchestration.source import source_spec

_log = logging.getLogger("rag_pipeline.orchestration")


def build_corpus_definitions(corpus: CorpusConfig, key_prefix: KeyPrefix = ()) -> dg.Definitions:
    """The definitions of one corpus, without resources: merge them with some that give `refresh_settings`.

    Args:
        key_prefix: comes before the corpus's name in the keys of its assets.
    """
    definitions, watched = _refreshing(corpus, parts_of(key_prefix))
    if not corpus.schedule.on_change:
        return definitions
    sensor = build_changes_sensor([watched], f"{names.CHANGES_SENSOR}_{corpus.name}")
    return dg.Definitions.merge(definitions, dg.Definitions(sensors=[sensor]))


def build_definitions(
    corpora: Iterable[CorpusConfig],
    settings: RefreshSettings | None = None,
    faulty: Iterable[FaultyCorpus] = (),
    key_prefix: KeyPrefix = (),
    strict: bool = False,
) -> dg.Definitions:
    """All corpora, the settings that they share, one sensor for their sources, and jobs for their groups.

    Args:
        faulty: corpora whose files cannot be used. Each is shown as an asset whose check has failed.
        key_prefix: comes before the corpus's name in the keys of all assets.
        strict: a corpus that Dagster cannot show is an error, and not one more that is shown as faulty.

    Raises:
        ConfigError: two corpora have the same name, or with ``strict`` as said there.
    """
    corpora = list(corpora)
    _check_names(corpora)
    parts = [dg.Definitions(resources={names.SETTINGS_RESOURCE: settings or RefreshSettings()})]
    sound: list[Watched] = []
    left_out = list(faulty)
    groups = {names.ALL_CORPORA_JOB, *(names.group_job_name(corpus.group) for corpus in corpora if corpus.group is not None)}
    for corpus in corpora:
        try:
            definitions, watched = _checked(corpus, parts_of(key_prefix), groups)
        except ConfigError as error:
            if strict:
                raise
            left_out.append(FaultyCorpus(corpus.folder, str(error)))
        else:
            parts.append(definitions)
            sound.append(watched)
    for found in left_out:
        _log.warning("left out: %s", found.reason)
    on_change = [watched for watched in sound if watched.corpus.schedule.on_change]
    if on_change:
        parts.append(dg.Definitions(sensors=[build_changes_sensor(on_change, names.CHANGES_SENSOR)]))
    parts.append(build_group_definitions([watched.corpus for watched in sound], [watched.job for watched in sound]))
    parts.append(build_fault_definitions(left_out, parts_of(key_prefix)))
    return dg.Definitions.merge(*parts)


def _checked(corpus: CorpusConfig, key_prefix: tuple[str, ...], groups: set[str]) -> tuple[dg.Definitions, Watched]:
    """What the corpus gives, when nothing is wrong with it that its file alone does not show.

    Args:
        groups: the jobs that refresh several corpora.

    Raises:
        ConfigError: its job would be called like one of those, or Dagster refuses what corpus.yaml says.
    """
    job = names.job_name(corpus.name)
    if job in groups:
        raise ConfigError(
            f"{corpus.file}: its job would be called {job}, as the one that refreshes several corpora is; rename the "
            "corpus's folder or the group"
        )
    try:
        return _refreshing(corpus, key_prefix)
    except dg.DagsterError as error:
        raise ConfigError(f"{corpus.file}: Dagster refuses it: {error}") from None


def _refreshing(corpus: CorpusConfig, key_prefix: tuple[str, ...]) -> tuple[dg.Definitions, Watched]:
    """A corpus's assets, checks, job and schedule, and what a sensor needs to know of them."""
    keys = CorpusKeys(corpus.name, key_prefix)
    tags = names.run_tags(corpus.name, corpus.group)
    job = dg.define_asset_job(
        names.job_name(corpus.name),
        selection=dg.AssetSelection.assets(*(keys.key(stage) for stage in names.STAGES)),
        description=f"Refresh the corpus {corpus.name}: reconcile it with its source and publish what changed.",
        tags=tags,
        executor_def=_executor(corpus),
    )
    schedule = dg.ScheduleDefinition(
        name=names.schedule_name(corpus.name),
        job=job,
        cron_schedule=corpus.schedule.cron,
        execution_timezone=corpus.schedule.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING if corpus.schedule.enabled else dg.DefaultScheduleStatus.STOPPED,
        description=f"Refreshes {corpus.name} as its corpus.yaml says.",
        tags={**tags, names.TRIGGER_TAG: "schedule"},
    )
    definitions = dg.Definitions(
        assets=[source_spec(corpus, keys), *build_assets(corpus, keys)],
        asset_checks=[build_snapshot_check(corpus, keys)],
        jobs=[job],
        schedules=[schedule],
    )
    return definitions, Watched(corpus, keys, job)


def _executor(corpus: CorpusConfig) -> dg.ExecutorDefinition:
    """A process a step costs seconds of start-up each; runs of different corpora have processes of their own anyway.

    Steps in processes of their own take turns, since each of them holds the corpus's lock.
    """
    if corpus.execution.executor == "multiprocess":
        return dg.multiprocess_executor.configured({"max_concurrent": 1})
    return dg.in_process_executor


def _check_names(corpora: Iterable[CorpusConfig]) -> None:
    for name, count in Counter(corpus.name for corpus in corpora).items():
        if count > 1:
            raise ConfigError(f"{count} corpora are called {name}: their jobs and stores would be the same")
