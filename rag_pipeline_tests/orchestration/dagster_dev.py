"""A real `dagster dev`, started for a test and asked through GraphQL."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.free_ports import free_port

ROOT = Path(__file__).resolve().parents[2]
Found = TypeVar("Found")


class DagsterDev:
    """Web server, daemon and code server on the corpora of a workspace, with the repository's dagster.yaml."""

    def __init__(self, workspace: Workspace, **variables: str) -> None:
        self.port = free_port()
        self.home = workspace.root / "dagster_home"
        self.log = workspace.root / "dagster_dev.log"
        self.home.mkdir()
        shutil.copy(ROOT / "dagster.yaml", self.home)
        self._environment = {**workspace.environment, "DAGSTER_HOME": str(self.home), **variables}
        self._environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self._folder = workspace.root

    def __enter__(self) -> DagsterDev:
        command = [str(Path(sys.executable).with_name("dagster")), "dev", "-m", "rag_pipeline.definitions"]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "-h", "127.0.0.1", "-p", str(self.port)],
                cwd=self._folder,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.until(lambda: self.ask("{version}"), 180)
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """The data of an answer; empty as long as the server does not answer."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/graphql", body, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                answer: dict[str, Any] = json.loads(response.read())
        except OSError:
            return {}
        assert "errors" not in answer, answer["errors"]
        data: dict[str, Any] = answer["data"]
        return data

    def until(self, look: Callable[[], Found], seconds: float) -> Found:
        """What ``look`` finds as soon as it finds something."""
        end = time.monotonic() + seconds
        while not (found := look()):
            assert self._process.poll() is None, self.log.read_text(errors="replace")[-4000:]
            assert time.monotonic() < end, f"nothing after {seconds} s: {self.log.read_text(errors='replace')[-4000:]}"
            time.sleep(1)
        return found

    def launch(self, job: str) -> str:
        """Launch a job as the launchpad does; the id of its run."""
        mutation = """mutation($selector: JobOrPipelineSelector!) {
            launchRun(executionParams: {selector: $selector, mode: "default"}) {
              __typename ... on LaunchRunSuccess {run {runId}} ... on PythonError {message} } }"""
        (repository,) = self.ask("{repositoriesOrError{...on RepositoryConnection{nodes{name location{name}}}}}")[
            "repositoriesOrError"
        ]["nodes"]
        selector = {
            "repositoryName": repository["name"],
            "repositoryLocationName": repository["location"]["name"],
            "jobName": job,
        }
        answer = self.ask(mutation, selector=selector)["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        run_id: str = answer["run"]["runId"]
        return run_id

    def finished(self, run_id: str, seconds: float = 180) -> str:
        """The status with which a run ended."""

        def look() -> str | None:
            status: str = self.ask("query($id: ID!){runOrError(runId: $id){...on Run{status}}}", id=run_id)["runOrError"][
                "status"
            ]
            return status if status in ("SUCCESS", "FAILURE", "CANCELED") else None

        return self.until(look, seconds) or ""

    def runs(self) -> list[dict[str, Any]]:
        """All runs with their tags, newest first."""
        query = "{runsOrError{...on Runs{results{runId jobName status tags{key value}}}}}"
        found = self.ask(query)["runsOrError"]["results"]
        return [{**run, "tags": {tag["key"]: tag["value"] for tag in run["tags"]}} for run in found]
