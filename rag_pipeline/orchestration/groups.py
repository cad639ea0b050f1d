"""Refresh many corpora at once: a run that asks for one run a corpus, so that each fails, waits and is tried again alone."""

# Dagster reads the annotations of op functions as objects, so that they cannot be postponed here.
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration import names
from rag_pipeline.orchestration.keys import RefreshJob
from rag_pipeline.wording import counted

_RUN_OPTIONS = ("full", "allow_deletes", "accept_drop", "wait_seconds")


class GroupOptions(dg.Config):
    """What every run of the group is given; see RefreshSettings."""

    full: bool = False
    allow_deletes: bool = False
    accept_drop: bool = False
    wait_seconds: float = 0


def build_group_definitions(corpora: Sequence[CorpusConfig], refreshing: Sequence[RefreshJob]) -> dg.Definitions:
    """A job for each `group` of corpus.yaml, one for all corpora, and the sensor that starts what they ask for.

    Args:
        refreshing: the jobs that refresh the corpora.
    """
    if not corpora:
        return dg.Definitions()
    members: dict[str, list[CorpusConfig]] = {names.ALL_CORPORA_JOB: list(corpora)}
    for corpus in corpora:
        if corpus.group is not None:
            members.setdefault(names.group_job_name(corpus.group), []).append(corpus)
    jobs = {name: _group_job(name, group) for name, group in members.items()}

    @dg.run_status_sensor(
        name=names.GROUPS_SENSOR,
        run_status=dg.DagsterRunStatus.SUCCESS,
        monitored_jobs=list(jobs.values()),
        request_jobs=refreshing,
        minimum_interval_seconds=10,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Starts one refresh a corpus when a job for a group, or for all corpora, asks for it.",
    )
    def body(context: dg.RunStatusSensorContext) -> Iterator[dg.RunRequest]:
        for corpus in members[context.dagster_run.job_name]:
            yield _request(corpus, context.dagster_run)

    return dg.Definitions(jobs=list(jobs.values()), sensors=[body])


def _group_job(name: str, corpora: Sequence[CorpusConfig]) -> dg.JobDefinition:
    listed = ", ".join(corpus.name for corpus in corpora)

    @dg.op(name=f"ask_to_{name}", description=f"Asks for a refresh of: {listed}")
    def ask(context: dg.OpExecutionContext, config: GroupOptions) -> None:
        context.log.info(
            f"the sensor {names.GROUPS_SENSOR} starts {counted(len(corpora), 'run')}, with the tag "
            f"{names.ASKED_BY_TAG}={context.run.run_id}: {listed}"
        )

    @dg.job(
        name=name,
        description=(
            f"Refresh {counted(len(corpora), 'corpus')}, each in a run of its own within the limits of the queue: {listed}"
        ),
        executor_def=dg.in_process_executor,
    )
    def body() -> None:
        ask()

    return body


def _request(corpus: CorpusConfig, asking: dg.DagsterRun) -> dg.RunRequest:
    tags = {names.ASKED_BY_TAG: asking.run_id, names.TRIGGER_TAG: asking.job_name}
    return dg.RunRequest(
        run_key=f"{asking.run_id}:{corpus.name}",
        job_name=names.job_name(corpus.name),
        run_config=_run_config(asking.run_config),
        tags={**names.run_tags(corpus.name, corpus.group), **tags},
    )


def _run_config(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the asking run, as configuration of a refresh."""
    options: dict[str, Any] = {}
    for op in asked.get("ops", {}).values():
        options |= {name: value for name, value in op.get("config", {}).items() if name in _RUN_OPTIONS}
    return {"resources": {names.SETTINGS_RESOURCE: {"config": options}}} if options else {}
