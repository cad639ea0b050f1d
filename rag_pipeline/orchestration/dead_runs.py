"""Runs whose processes were killed: they are marked failed, and what they hold is freed, so that no corpus stays blocked.

Who notices what, when a run is killed:

- A worker alone: the code server that started it, within seconds.
- A worker and its code server (a container or a machine that goes down): nobody in Dagster, whose default launcher cannot
  ask after workers. The run would stay started for good and keep its corpus's place in the queue.
  :func:`dead_runs_sensor` looks for it from the code server that is started next.
- A refresh of the command line: nobody in Dagster either. The next one looks, and so does the sensor.

A run names the processes that work on it in its tags, as long as they are on the machine or in the container that asks.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import dagster as dg

from rag_pipeline.orchestration import names

_LOOK_AGAIN_SECONDS = 5.0
_SENSOR_SECONDS = 30


def process_tags() -> dict[str, str]:
    """Tags that say which process works on a run."""
    return {names.HOST_TAG: socket.gethostname(), names.PROCESS_TAG: _process(os.getpid()) or str(os.getpid())}


def mark_process(context: dg.InitResourceContext) -> None:
    """Note on the run that this process works on it.

    A run that a code server has started lives as long as this process or its parent: where steps are processes of their own,
    the parent is the run's worker; where they are not, it is the code server, which looks after its workers itself. The tag
    names the run, since a run that is started again inherits the tags of the one before.
    """
    run, instance = context.run, context.instance
    if run is None or instance is None or instance.is_ephemeral or _own_processes(run):
        return
    tags = process_tags()
    processes = [tags[names.PROCESS_TAG]]
    if run.tags.get(names.PROCESS_TAG) != tags[names.PROCESS_TAG]:
        processes.append(_process(os.getppid()) or str(os.getppid()))
    tags[names.PROCESS_TAG] = ", ".join([run.run_id, *processes])
    instance.add_run_tags(run.run_id, tags)


def fail_dead_runs(instance: dg.DagsterInstance, look_again_after: float = 0.0) -> list[str]:
    """Mark the runs failed whose processes on this machine are gone, and free their places in pools. Returns their ids.

    ``look_again_after`` leaves a code server that many seconds to notice a dead worker of its own and to say why it died.
    """
    working = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
    filters = dg.RunsFilter(statuses=working, tags={names.HOST_TAG: socket.gethostname()})
    suspects = [run.run_id for run in instance.get_runs(filters) if _dead(run)]
    if suspects and look_again_after:
        time.sleep(look_again_after)
    # A process may have ended between the two looks because its run has.
    dead = [run for run in map(instance.get_run_by_id, suspects) if run is not None and run.status in working]
    for run in dead:
        message = "The process that worked on this run is gone: it was killed."
        if run.status == dg.DagsterRunStatus.CANCELING:
            instance.report_run_canceled(run, message=message)
        else:
            instance.report_run_failed(run, message=message)
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return [run.run_id for run in dead]


def dead_runs_sensor() -> dg.SensorDefinition:
    """A sensor that marks dead runs failed. It is evaluated where the workers are: in the code server."""

    @dg.sensor(
        name=names.DEAD_RUNS_SENSOR,
        minimum_interval_seconds=_SENSOR_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Marks runs failed whose process was killed together with its code server, so that they hold no place in the "
            "queue or in a pool. It starts no runs. Leave it on."
        ),
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        dead = fail_dead_runs(context.instance, look_again_after=_LOOK_AGAIN_SECONDS)
        if dead:
            context.log.warning("marked as failed, their processes are gone: %s", ", ".join(dead))
            return dg.SkipReason(f"Marked as failed: {', '.join(dead)}.")
        return dg.SkipReason("Every run at work has a process.")

    return sensor


def _own_processes(run: dg.DagsterRun) -> list[str]:
    """The processes that the run itself has noted."""
    own, *processes = run.tags.get(names.PROCESS_TAG, "").split(", ")
    return processes if own == run.run_id else []


def _dead(run: dg.DagsterRun) -> bool:
    processes = _own_processes(run)
    if not processes and run.parent_run_id is None and ", " not in run.tags.get(names.PROCESS_TAG, ""):
        # The command line notes its process when it starts the run, before the run has a number.
        processes = [run.tags.get(names.PROCESS_TAG, "")]
    return bool(processes) and not any(map(_alive, processes))


def _alive(process: str) -> bool:
    number, _, started = process.partition(" ")
    if not number.isdigit():
        return True
    if started:
        return _process(int(number)) == process
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _process(number: int) -> str | None:
    """A process by number and start, since numbers are used again; None where the system does not tell or it is gone."""
    try:
        about = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # proc(5): the name in brackets may hold anything; after it come the state and, as the 22nd of all, the start in ticks.
    fields = about.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else f"{number} {fields[19]}"
