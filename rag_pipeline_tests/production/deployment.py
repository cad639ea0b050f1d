"""The services of compose.yaml as processes of this machine: their own commands, variables and health checks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.free_ports import free_port

ROOT = Path(__file__).resolve().parent.parent.parent
FINAL = {"SUCCESS", "FAILURE", "CANCELED"}
T = TypeVar("T")


def eventually(look: Callable[[], T], seconds: float, what: str) -> T:
    """What ``look`` returns, once it is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.3)
    raise AssertionError(f"not within {seconds:.0f} s: {what}")


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    return loaded


class Deployment:
    """Code server, web UI and daemon, each in a process group of its own, so that each can be killed with its children."""

    def __init__(self, workspace: Workspace, database: dict[str, str], variables: dict[str, str]) -> None:
        self._workspace = workspace
        self._services = compose()["services"]
        self._ports = {"4000": str(free_port()), "3000": str(free_port())}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._home = workspace.root / "dagster_home"
        self._home.mkdir()
        self._write_instance()
        logs = workspace.root / "compute_logs"
        self.variables = {
            **database,
            **variables,
            "DAGSTER_HOME": str(self._home),
            "DAGSTER_COMPUTE_LOGS": str(logs),
            "RAG_PIPELINE_CODE_HOST": "127.0.0.1",
            "RAG_PIPELINE_CODE_PORT": self._ports["4000"],
        }

    def _write_instance(self) -> None:
        """dagster.prod.yaml as it is, but that monitoring looks every 2 seconds, for the test's sake."""
        text = (ROOT / "dagster.prod.yaml").read_text(encoding="utf-8")
        for key, seconds in {"poll_interval_seconds": 2, "free_slots_after_run_end_seconds": 2}.items():
            text, count = re.subn(rf"(\n  {key}): \d+", rf"\1: {seconds}", text)
            assert count == 1, key
        (self._home / "dagster.yaml").write_text(text, encoding="utf-8")

    def start(self, service: str) -> None:
        log = (self._workspace.root / f"{service}.log").open("ab")
        self._processes[service] = subprocess.Popen(
            self._here(self._services[service]["command"]),
            cwd=self._workspace.root,
            env={**self._workspace.environment, **self._of_compose(service), **self.variables},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _of_compose(self, service: str) -> dict[str, str]:
        """The variables that only this service is given, empty as they are without an .env."""
        given = self._services[service].get("environment") or {}
        return {name: re.sub(r"\$\{\w+:-(.*?)\}", r"\1", str(value)) for name, value in given.items()}

    def _here(self, command: list[str]) -> list[str]:
        """A command of a container as one of this machine: the programs of this environment, free ports, loopback alone."""
        own = {"0.0.0.0": "127.0.0.1", "/srv/rag/workspace.yaml": str(ROOT / "workspace.prod.yaml"), **self._ports}
        words = [own.get(word, word).replace(":3000/", f":{self._ports['3000']}/") for word in command]
        program = Path(sys.executable).parent / words[0]
        assert program.exists(), f"compose.yaml names {words[0]}, which is no program of the environment"
        return [str(program), *words[1:]]

    def healthy(self, service: str) -> bool:
        """Whether the service's own health check holds."""
        kind, *check = self._services[service]["healthcheck"]["test"]
        assert kind == "CMD"
        environment = {**self._workspace.environment, **self.variables}
        return subprocess.run(self._here(check), env=environment, capture_output=True, check=False).returncode == 0

    def start_all(self) -> None:
        self.start("code")
        eventually(lambda: self.healthy("code"), 120, "the code server answers its health check")
        self.start("webserver")
        self.start("daemon")
        eventually(lambda: self.healthy("webserver"), 120, "the web UI answers its health check")

    def kill(self, service: str) -> None:
        """kill -9 to the service and all that it has started, as when its container is killed."""
        process = self._processes.pop(service)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for process in self._processes.values():
            os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def log(self) -> str:
        """The ends of all logs, for the message of a test that fails."""
        files = sorted(self._workspace.root.glob("*.log"))
        return "\n".join(f"--- {file.name}\n{file.read_text(errors='replace')[-3000:]}" for file in files)

    def graphql(self, query: str, **variables: Any) -> dict[str, Any]:
        return graphql(int(self._ports["3000"]), query, **variables)

    def launch(self, job: str) -> str:
        """Launch a job as the UI does. Returns the run's id."""
        return launch(int(self._ports["3000"]), job)

    def runs(self, corpus: str = "docs") -> list[dict[str, Any]]:
        """The runs of a corpus, the newest first."""
        return runs(int(self._ports["3000"]), corpus)


def graphql(port: int, query: str, **variables: Any) -> dict[str, Any]:
    asked = json.dumps({"query": query, "variables": variables}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/graphql", asked, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        said: dict[str, Any] = json.loads(answer.read())
    assert not said.get("errors"), said["errors"]
    data: dict[str, Any] = said["data"]
    return data


def launch(port: int, job: str) -> str:
    selector = {"repositoryLocationName": "rag_pipeline", "repositoryName": "__repository__", "jobName": job}
    answer = graphql(
        port,
        """mutation($parameters: ExecutionParams!) { launchRun(executionParams: $parameters) {
             __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }""",
        parameters={"selector": selector, "runConfigData": {}, "mode": "default"},
    )["launchRun"]
    assert answer["__typename"] == "LaunchRunSuccess", answer
    run_id: str = answer["run"]["runId"]
    return run_id


def runs(port: int, corpus: str) -> list[dict[str, Any]]:
    answer = graphql(
        port,
        """query($filter: RunsFilter) { runsOrError(filter: $filter) { ... on Runs { results {
             runId status jobName tags { key value } } } } }""",
        filter={"tags": [{"key": "corpus", "value": corpus}]},
    )["runsOrError"]["results"]
    return [{**run, "tags": {tag["key"]: tag["value"] for tag in run["tags"]}} for run in answer]
