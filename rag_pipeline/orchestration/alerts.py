"""Alerts: a run that fails is told to a webhook, named by RAG_PIPELINE_ALERT_WEBHOOK. Without it there is no alert sensor.

The body is JSON. Its ``text`` is what Slack, Mattermost and others that take Slack's format show; the other fields are for
programs. The webhook's address is a secret, since whoever knows it can post: it stands in no message, log or tick.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlsplit

import dagster as dg

from rag_pipeline.embedding.hosted.secrets import redact
from rag_pipeline.errors import ConfigError, ProviderError
from rag_pipeline.orchestration import names

WEBHOOK_VARIABLE = "RAG_PIPELINE_ALERT_WEBHOOK"
UI_VARIABLE = "RAG_PIPELINE_UI_URL"

_ATTEMPTS = 4
_FIRST_PAUSE_SECONDS = 1.0
_TIMEOUT_SECONDS = 10.0
_SENSOR_SECONDS = 30
_LONGEST_ERROR = 2_000
"""Characters: enough for the twenty files that a refusal names, and below what chats take in a message."""
_WILL_RETRY_TAG = "dagster/will_retry"
_TEMPORARY = {408, 425, 429}


@dataclass(frozen=True)
class Alert:
    """What is told about a failed run. ``corpus``, ``stage`` and ``url`` are None where they are not known."""

    job: str
    run_id: str
    corpus: str | None
    stage: str | None
    error: str
    url: str | None
    will_retry: bool

    @property
    def text(self) -> str:
        """The alert in the few lines that people read."""
        what = f"Refresh of {self.corpus}" if self.corpus else f"Run of {self.job}"
        lines = [f"{what} failed{f' at {self.stage}' if self.stage else ''}: {self.error}"]
        if self.will_retry:
            lines.append("Dagster starts it once more by itself.")
        lines.append(self.url or f"Run {self.run_id}")
        return "\n".join(lines)

    def body(self) -> dict[str, Any]:
        """The JSON that is posted."""
        return {"text": self.text, "status": "failed", **asdict(self)}


def alert_sensor() -> dg.SensorDefinition | None:
    """The sensor that posts an alert for each failed run of this code location; None when no webhook is set.

    Raises:
        ConfigError: the webhook or the address of the UI is no http(s) address.
    """
    webhook = _address(WEBHOOK_VARIABLE)
    if webhook is None:
        return None
    ui = _address(UI_VARIABLE)

    @dg.run_failure_sensor(
        name=names.ALERT_SENSOR,
        minimum_interval_seconds=_SENSOR_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Posts each failed run to the address in {WEBHOOK_VARIABLE}: corpus, stage, error and a link.",
    )
    def sensor(context: dg.RunFailureSensorContext) -> None:
        alert = describe(context.instance, context.dagster_run, ui)
        post(webhook, alert.body())
        context.log.info("told the webhook of run %s", alert.run_id)

    return sensor


def describe(instance: dg.DagsterInstance, run: dg.DagsterRun, ui: str | None = None) -> Alert:
    """What there is to tell about a failed run; ``ui`` is the address of the Dagster UI."""
    stage, error = next(_reasons(instance, run.run_id), (None, "it did not say why"))
    # The daemon tags the run when it has decided whether to start it again, which may be later than the sensor looks.
    current = instance.get_run_by_id(run.run_id) or run
    return Alert(
        job=run.job_name,
        run_id=run.run_id,
        corpus=run.tags.get(names.CORPUS_TAG),
        stage=stage,
        error=redact(error, _LONGEST_ERROR, lines=True),
        url=f"{ui.rstrip('/')}/runs/{run.run_id}" if ui else None,
        will_retry=current.tags.get(_WILL_RETRY_TAG, "").lower() == "true",
    )


def _reasons(instance: dg.DagsterInstance, run_id: str) -> Iterator[tuple[str | None, str]]:
    """Why a run failed, with the stage: blocking checks that did not hold, then failed steps, then what ended the run."""
    wanted = {
        dg.DagsterEventType.ASSET_CHECK_EVALUATION,
        dg.DagsterEventType.STEP_FAILURE,
        dg.DagsterEventType.RUN_FAILURE,
    }
    entries = instance.all_logs(run_id, of_type=wanted)
    for entry in entries:
        check = entry.dagster_event.event_specific_data if entry.dagster_event else None
        if isinstance(check, dg.AssetCheckEvaluation) and not check.passed and check.severity == dg.AssetCheckSeverity.ERROR:
            yield check.asset_key.path[-1], f"{check.check_name}: {check.description or 'did not hold'}"
    for entry in entries:
        event = entry.dagster_event
        if event is not None and event.is_step_failure:
            failure = event.step_failure_data
            described = failure.user_failure_data.description if failure.user_failure_data is not None else None
            error = failure.error.cause or failure.error if failure.error is not None else None
            yield _stage(event.step_key), described or (error.message if error is not None else "it did not say why")
    for entry in entries:
        if entry.dagster_event is not None and entry.dagster_event.is_failure:
            failed: Any = entry.dagster_event.event_specific_data
            cause = getattr(failed, "error", None)
            yield None, cause.message if cause is not None else entry.dagster_event.message or entry.user_message


def _stage(step_key: str | None) -> str | None:
    """The stage of a step, whose key is the asset key or that of a check: `handbook__documents`."""
    for stage in names.STAGES:
        if step_key is not None and (step_key.endswith(f"__{stage}") or f"__{stage}_" in step_key):
            return stage
    return step_key


def post(address: str, body: dict[str, Any]) -> None:
    """Post JSON, and try again with growing pauses when that may help.

    Raises:
        ProviderError: it could not be delivered. The message names the host alone.
    """
    host = urlsplit(address).hostname
    request = urllib.request.Request(
        address,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "User-Agent": "rag-pipeline"},
        method="POST",
    )
    opener = urllib.request.build_opener(_NoRedirects)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with opener.open(request, timeout=_TIMEOUT_SECONDS):
                return
        except urllib.error.HTTPError as error:
            said, again = f"answers {error.code}", error.code >= 500 or error.code in _TEMPORARY
        except (urllib.error.URLError, OSError) as error:
            said, again = f"cannot be reached ({type(getattr(error, 'reason', error)).__name__})", True
        if not again or attempt == _ATTEMPTS:
            # Not chained: what urllib says may hold the address.
            raise ProviderError(f"an alert could not be delivered: {host} of {WEBHOOK_VARIABLE} {said}") from None
        time.sleep(_FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """An alert is not carried to an address that nobody has configured."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _address(variable: str) -> str | None:
    value = os.environ.get(variable, "").strip()
    if not value:
        return None
    try:
        parts = urlsplit(value)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        sound = False
    if not sound:
        raise ConfigError(f"{variable}: expected an address that begins with https:// or http:// (its value is not shown)")
    return value
