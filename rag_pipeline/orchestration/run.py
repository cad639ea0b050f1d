"""Refresh one corpus now, in this process, as a Dagster run that the UI shows afterwards."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.contracts import Contract
from rag_pipeline.errors import ConfigError, CredentialsError, MissingExtraError
from rag_pipeline.orchestration import names
from rag_pipeline.orchestration.corpus_definitions import build_corpus_definitions
from rag_pipeline.orchestration.dead_runs import fail_dead_runs, process_tags
from rag_pipeline.orchestration.markup import plain
from rag_pipeline.orchestration.resources import RefreshSettings, listener
from rag_pipeline.refresh import Reporter

_MISCONFIGURED = {error.__name__ for error in (ConfigError, CredentialsError, MissingExtraError)}


@dataclass(frozen=True)
class RefreshOutcome:
    """What came of one run. ``error`` is None when it succeeded; ``reports`` hold the stages that finished.

    ``misconfigured`` tells a failure that configuration, environment or installation is to blame for. ``at_failure``
    is what stands beside the message: figures of what was paid (``tokens``, ``cost_usd`` and others), and ``failures``, the
    documents that cannot be read, when there are too many.
    """

    corpus: str
    run_id: str
    seconds: float
    error: str | None
    trace: str | None = None
    misconfigured: bool = False
    at_failure: dict[str, Any] = field(default_factory=dict)
    reports: dict[str, Contract] = field(default_factory=dict)


class _Recording:
    """Passes progress on, and keeps the reports."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self.reports: dict[str, Contract] = {}

    def begin(self, corpus: str, stage: str, total: int | None, unit: str, total_bytes: int | None = None) -> None:
        self._reporter.begin(corpus, stage, total, unit, total_bytes)

    def advance(self, amount: int, note: str = "", size: int = 0, failures: int = 0) -> None:
        self._reporter.advance(amount, note, size, failures)

    def end(self, summary: str) -> None:
        self._reporter.end(summary)

    def record(self, corpus: str, stage: str, report: Contract) -> None:
        self.reports[stage] = report
        self._reporter.record(corpus, stage, report)


def run_refresh(corpus: CorpusConfig, settings: RefreshSettings, reporter: Reporter) -> RefreshOutcome:
    """Run the corpus's job against the instance in DAGSTER_HOME, or one in memory when that is not set.

    Dagster's own log lines stay off the terminal; the event log has them all.
    """
    recording = _Recording(reporter)
    resources = dg.Definitions(resources={names.SETTINGS_RESOURCE: settings})
    definitions = dg.Definitions.merge(resources, build_corpus_definitions(corpus))
    job = definitions.resolve_job_def(names.job_name(corpus.name))
    started = time.perf_counter()
    with contextlib.ExitStack() as stack:
        token = listener.set(recording)
        stack.callback(listener.reset, token)
        home = os.environ.get("DAGSTER_HOME")
        if home:
            try:
                instance = stack.enter_context(dg.DagsterInstance.get())
            except dg.DagsterError as error:
                raise ConfigError(f"DAGSTER_HOME={home}: {str(error).splitlines()[0]}") from None
        else:
            instance = stack.enter_context(dg.DagsterInstance.ephemeral())
        fail_dead_runs(instance)
        result = job.execute_in_process(
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            instance=instance,
            raise_on_error=False,
            tags={names.CORPUS_TAG: corpus.name, **process_tags()},
        )
    _raise_if_interrupted(result)
    return RefreshOutcome(
        corpus=corpus.name,
        run_id=result.run_id,
        seconds=round(time.perf_counter() - started, 3),
        error=None if result.success else _error(corpus.name, result),
        trace=None if result.success else _trace(result),
        misconfigured=not result.success and _misconfigured(result),
        at_failure=_at_failure(result),
        reports=recording.reports,
    )


def _error(corpus: str, result: dg.ExecuteInProcessResult) -> str:
    """Why a run failed: the blocking checks that did not hold, each from a line of its own on, or else the first failed
    step."""
    findings = [
        f"{event.event_specific_data.check_name}: {plain(event.event_specific_data.description or '')}"
        for event in result.all_events
        if isinstance(event.event_specific_data, dg.AssetCheckEvaluation)
        and not event.event_specific_data.passed
        and event.event_specific_data.severity == dg.AssetCheckSeverity.ERROR
    ]
    if findings:
        found = "\n".join(findings)
        return f"{corpus}: nothing was published, a check failed: {found}"
    for event in result.all_events:
        if event.is_step_failure:
            failure = event.step_failure_data
            if failure.user_failure_data is not None and failure.user_failure_data.description:
                return failure.user_failure_data.description
            if failure.error is not None:
                cause = failure.error.cause or failure.error
                return cause.message.strip()
    for error in _run_errors(result):
        return str((error.cause or error).message).strip()
    return "the run failed without saying why; see it in the Dagster UI"


def _misconfigured(result: dg.ExecuteInProcessResult) -> bool:
    """Whether the first step that failed did so because of configuration or installation."""
    for event in result.all_events:
        error = event.step_failure_data.error if event.is_step_failure else None
        if error is not None:
            return (error.cause or error).cls_name in _MISCONFIGURED
    return False


def _at_failure(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """What stands beside the message of the first step that failed."""
    for event in result.all_events:
        failure = event.step_failure_data.user_failure_data if event.is_step_failure else None
        if failure is not None:
            return {name: value.value for name, value in failure.metadata.items()}
    return {}


def _trace(result: dg.ExecuteInProcessResult) -> str | None:
    """The traces of the failed steps, for whoever asks for them."""
    failures = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    return "\n".join(failure.error.to_string() for failure in failures if failure.error is not None) or None


def _run_errors(result: dg.ExecuteInProcessResult) -> Iterator[Any]:
    """What ended the run beside its steps: while resources are set up, between two steps, and while it waits."""
    for event in result.all_events:
        if event.event_type == dg.DagsterEventType.RUN_FAILURE and event.job_failure_data.error is not None:
            yield event.job_failure_data.error


def _raise_if_interrupted(result: dg.ExecuteInProcessResult) -> None:
    failures = [event.step_failure_data.error for event in result.all_events if event.is_step_failure]
    for error in (*failures, *_run_errors(result)):
        if error is not None and error.cls_name in ("DagsterExecutionInterruptedError", "KeyboardInterrupt"):
            raise KeyboardInterrupt
