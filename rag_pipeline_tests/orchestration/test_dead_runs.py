"""Runs whose processes are gone are marked failed; all others are left alone."""

from __future__ import annotations

import os
import socket

import dagster as dg

from rag_pipeline.orchestration import RefreshSettings, build_definitions, names, run_refresh
from rag_pipeline.orchestration.dead_runs import fail_dead_runs, process_tags
from rag_pipeline.refresh import Silent
from rag_pipeline_tests.conftest import Workspace

ALIVE = process_tags()[names.PROCESS_TAG]
GONE = f"{os.getpid()} 1"
"""This process's number, as it was given to another one when the machine had just started."""


@dg.job
def other() -> None:
    @dg.op
    def work() -> None:
        return

    work()


def at_work(
    instance: dg.DagsterInstance,
    *processes: str,
    named: str | None = None,
    host: str | None = None,
    status: dg.DagsterRunStatus = dg.DagsterRunStatus.STARTED,
) -> str:
    """A run at work that names its processes, or the processes of the run ``named``, whose tags it has inherited."""
    run = instance.create_run_for_job(other, status=status)
    noted = ", ".join([named or run.run_id, *processes])
    instance.add_run_tags(run.run_id, {names.HOST_TAG: host or socket.gethostname(), names.PROCESS_TAG: noted})
    return run.run_id


def status(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRunStatus:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return run.status


def test_a_run_without_a_living_process_is_marked_failed_and_says_why(instance: dg.DagsterInstance) -> None:
    dead = at_work(instance, GONE, GONE)
    assert fail_dead_runs(instance) == [dead]
    assert status(instance, dead) == dg.DagsterRunStatus.FAILURE
    assert any("it was killed" in entry.message for entry in instance.all_logs(dead))


def test_one_that_was_being_cancelled_is_marked_cancelled(instance: dg.DagsterInstance) -> None:
    dead = at_work(instance, GONE, status=dg.DagsterRunStatus.CANCELING)
    assert fail_dead_runs(instance) == [dead]
    assert status(instance, dead) == dg.DagsterRunStatus.CANCELED


def test_a_run_lives_as_long_as_one_of_its_processes(instance: dg.DagsterInstance) -> None:
    at_work(instance, GONE, ALIVE)
    at_work(instance, ALIVE, GONE)
    assert not fail_dead_runs(instance)


def test_processes_of_another_machine_cannot_be_told(instance: dg.DagsterInstance) -> None:
    at_work(instance, GONE, host="another-machine")
    assert not fail_dead_runs(instance)


def test_tags_inherited_from_the_run_before_say_nothing(instance: dg.DagsterInstance) -> None:
    at_work(instance, GONE, named="00000000-0000-0000-0000-000000000000")
    assert not fail_dead_runs(instance)


def test_what_a_dead_run_holds_in_a_pool_is_free_again(instance: dg.DagsterInstance) -> None:
    storage = instance.event_log_storage
    storage.set_concurrency_slots("embedding_openai", 1)
    dead = at_work(instance, GONE)
    storage.claim_concurrency_slot("embedding_openai", dead, "docs__embeddings")
    assert storage.get_concurrency_info("embedding_openai").claimed_slots
    fail_dead_runs(instance)
    assert not storage.get_concurrency_info("embedding_openai").claimed_slots


def test_a_refresh_of_the_command_line_names_its_own_process_alone(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    """Its parent is a shell, which outlives it."""
    workspace.corpus(files={"a.md": "# A\n\nOne page.\n"})
    outcome = run_refresh(workspace.config(), RefreshSettings(data=str(workspace.data)), Silent())
    run = instance.get_run_by_id(outcome.run_id)
    assert run is not None
    assert run.tags[names.PROCESS_TAG] == f"{outcome.run_id}, {ALIVE}"


def test_a_run_that_dagster_starts_names_its_process_and_the_one_that_started_it(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    workspace.corpus(files={"a.md": "# A\n\nOne page.\n"})
    settings = RefreshSettings(data=str(workspace.data))
    job = build_definitions([workspace.config()], settings).resolve_job_def("refresh_docs")
    # As after a run that was killed, whose tags this one has inherited.
    inherited = {names.HOST_TAG: "another-machine", names.PROCESS_TAG: f"00000000-0000-0000-0000-000000000000, {GONE}"}
    result = job.execute_in_process(instance=instance, tags=inherited)
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    run_id, own, parent = run.tags[names.PROCESS_TAG].split(", ")
    assert (run_id, own, parent.split()[0]) == (result.run_id, ALIVE, str(os.getppid()))
    assert run.tags[names.HOST_TAG] == socket.gethostname()
