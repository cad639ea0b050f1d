"""Runs of the command line whose process was killed: nobody else marks them failed and frees what they hold.

Dagster's daemon watches the runs that it launched itself. A refresh from the command line is its own process, and when
that is killed its place in an embedding pool would block every later refresh.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import dagster as dg

from rag_pipeline.orchestration import names


def process_tags() -> dict[str, str]:
    """Tags that say which process works on a run."""
    return {names.HOST_TAG: socket.gethostname(), names.PROCESS_TAG: _process(os.getpid()) or str(os.getpid())}


def fail_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """Mark the runs failed whose process on this machine is gone, and free their places in pools. Returns their ids."""
    working = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
    filters = dg.RunsFilter(statuses=working, tags={names.HOST_TAG: socket.gethostname()})
    dead = [run for run in instance.get_runs(filters) if not _alive(run.tags.get(names.PROCESS_TAG, ""))]
    for run in dead:
        instance.report_run_failed(run, message="The process that worked on this run is gone: it was killed.")
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return [run.run_id for run in dead]


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
