"""A sensor that looks at sources without reading them, and asks for one refresh a change.

Of each corpus it remembers the last listing that it has asked for, or found to be known. A listing that differs must look
the same twice in a row, so that a copy in progress does not start a refresh. While a run of the corpus waits or works,
nothing is asked for: afterwards the run has recorded what it has loaded, and that is what counts. What is asked for is
recorded as a new version of the source, so that the UI shows the documents as out of date until they are refreshed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import dagster as dg
from pydantic import ValidationError

from rag_pipeline.config import CorpusConfig
from rag_pipeline.contracts import Contract
from rag_pipeline.errors import RagPipelineError
from rag_pipeline.orchestration import names
from rag_pipeline.orchestration.keys import CorpusKeys, RefreshJob
from rag_pipeline.orchestration.looks import Looks
from rag_pipeline.orchestration.source import consumed_hash, source_events

_INTERVAL_SECONDS = 30
_SECONDS_A_TICK = 20.0
"""Dagster ends an evaluation after 60 s. Corpora that are not reached have their turn first next time."""
_SECONDS_A_LOOK = 5.0

_IN_PROGRESS = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


class _Seen(Contract):
    """What the sensor remembers of one corpus: hashes of listings, times in seconds, and how often it has asked."""

    known: str | None = None
    pending: str | None = None
    looked: float = 0
    asked: float = 0
    times: int = 0


class Watched(NamedTuple):
    """A corpus, the keys of its assets, and the job that refreshes it."""

    corpus: CorpusConfig
    keys: CorpusKeys
    job: RefreshJob


def build_changes_sensor(watched: Sequence[Watched], name: str) -> dg.SensorDefinition:
    """One sensor for all these corpora."""
    looks = Looks()
    listed = ", ".join(corpus.name for corpus, *_ in watched[:10]) + (", …" if len(watched) > 10 else "")

    @dg.sensor(
        name=name,
        jobs=[job for *_, job in watched],
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            f"Lists the sources of the corpora with `schedule.on_change` ({listed}), reads none of them, and refreshes a "
            "corpus whose source has changed and is at rest."
        ),
    )
    def body(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        return _look(context, watched, looks)

    return body


def _look(context: dg.SensorEvaluationContext, watched: Sequence[Watched], looks: Looks) -> dg.SensorResult:
    seen = _memory(context.cursor)
    runs = context.instance.get_runs(dg.RunsFilter(statuses=_IN_PROGRESS))
    busy = {run.tags[names.CORPUS_TAG] for run in runs if names.CORPUS_TAG in run.tags}
    requests, reasons = [], []
    events: list[dg.AssetMaterialization | dg.AssetObservation] = []
    started, now = time.monotonic(), time.time()
    after: dict[str, _Seen] = {corpus.name: seen.get(corpus.name, _Seen()) for corpus, *_ in watched}
    for corpus, keys, _ in sorted(watched, key=lambda entry: after[entry.corpus.name].looked):
        if time.monotonic() - started > _SECONDS_A_TICK:
            reasons.append("the other corpora have their turn next time")
            break
        if corpus.name in busy:
            reasons.append(f"{corpus.name}: a refresh waits or works")
            continue
        try:
            listing = looks.look(corpus, _SECONDS_A_LOOK)
        except (RagPipelineError, OSError) as error:
            reasons.append(f"{corpus.name}: {error}")
            after[corpus.name] = after[corpus.name].model_copy(update={"looked": now, "pending": None})
            continue
        looked = after[corpus.name].model_copy(update={"looked": now})
        if listing is None:
            reasons.append(f"{corpus.name}: its source is being listed, which takes long")
            after[corpus.name] = looked
            continue
        state, ask = _judge(looked, listing.hash, corpus, partial(consumed_hash, context.instance, keys))
        after[corpus.name] = state
        if ask:
            requests.append(_request(corpus, state))
            events += source_events(context.instance, keys, listing)
    reason = "; ".join(reasons) or f"{len(watched)} sources are as the last refresh saw them, or not at rest yet"
    cursor = json.dumps({name: state.model_dump(exclude_defaults=True) for name, state in after.items()})
    skip_reason = None if requests else dg.SkipReason(reason)
    return dg.SensorResult(run_requests=requests, cursor=cursor, skip_reason=skip_reason, asset_events=events)


def _judge(state: _Seen, found: str, corpus: CorpusConfig, consumed: Callable[[], str | None]) -> tuple[_Seen, bool]:
    """What to remember of a corpus whose listing has this hash, and whether to ask for a refresh.

    ``consumed`` is the hash that the last refresh has loaded; finding it out costs a query.
    """
    if found == state.known:
        return state.model_copy(update={"pending": None}), False
    if found == consumed():
        return state.model_copy(update={"known": found, "pending": None}), False
    if found != state.pending:
        return state.model_copy(update={"pending": found}), False
    if state.looked - state.asked < corpus.schedule.on_change_minutes * 60:
        return state, False
    asked = {"known": found, "pending": None, "asked": state.looked, "times": state.times + 1}
    return state.model_copy(update=asked), True


def _request(corpus: CorpusConfig, state: _Seen) -> dg.RunRequest:
    # A listing may come back to what it was, so that its hash alone would not do as a key. When the daemon dies before
    # it has kept the cursor, the same number is asked for again, and Dagster makes no second run of it.
    return dg.RunRequest(
        run_key=f"{corpus.name}:{state.times}:{state.known}",
        job_name=names.job_name(corpus.name),
        tags={**names.run_tags(corpus.name, corpus.group), names.TRIGGER_TAG: "source changed"},
    )


def _memory(cursor: str | None) -> Mapping[str, _Seen]:
    """What the last evaluation left. A cursor that cannot be read counts as none: everything is compared anew."""
    if not cursor:
        return {}
    try:
        values: Any = json.loads(cursor)
        return {str(name): _Seen.model_validate(state) for name, state in values.items()}
    except (ValueError, ValidationError, AttributeError):
        return {}
