"""`dagster dev` on 127.0.0.1 with the repository's dagster.yaml, as `make dev` starts it, on a workspace of a test's own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import urllib.error
from pathlib import Path
from typing import Any

from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.free_ports import free_port
from rag_pipeline_tests.production.deployment import ROOT, eventually, graphql, launch, runs


class DagsterDev:
    """The process and all that it starts: web UI, daemon, code server, runs."""

    def __init__(self, workspace: Workspace, variables: dict[str, str] | None = None) -> None:
        self._workspace = workspace
        self._variables = variables or {}
        self._home = workspace.root / "dagster_home"
        self._home.mkdir(exist_ok=True)
        shutil.copy(ROOT / "dagster.yaml", self._home)
        self._log = workspace.root / "dev.log"
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [Path(sys.executable).parent / "dagster", "dev", "-w", "workspace.yaml", "-h", "127.0.0.1"]
        self._process = subprocess.Popen(
            [*command, "-p", str(self.port)],
            cwd=ROOT,
            env={**self._workspace.environment, **self._variables, "DAGSTER_HOME": str(self._home)},
            stdout=self._log.open("ab"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        eventually(self._serves, 180, f"dagster dev serves: {self._log.read_text(errors='replace')[-2000:]}")

    def _serves(self) -> bool:
        assert self._process.poll() is None, self.log()
        try:
            return bool(graphql(self.port, "{ assetNodes { id } }")["assetNodes"])
        except (urllib.error.URLError, OSError):
            return False

    def launch(self, job: str) -> str:
        return launch(self.port, job)

    def runs(self, corpus: str) -> list[dict[str, Any]]:
        return runs(self.port, corpus)

    def kill(self) -> None:
        """kill -9 to everything, as when the machine goes down."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-5000:]
