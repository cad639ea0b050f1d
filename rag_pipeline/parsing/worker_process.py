"""A worker process as its parent sees it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, NamedTuple

from rag_pipeline.config import ParsingConfig
from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import ConfigError, MissingExtraError, ParseError, TransientError
from rag_pipeline.parsing.frames import read_frame, write_frames
from rag_pipeline.parsing.reasons import needs_time

_CLOCK = 2
"""A document may take so many times its processor time by the clock: a machine may have other work, too."""
_START = 5
"""Seconds that a worker may take to start on a busy machine."""
_LAST_BREATH = 2
_LONGEST_COMPLAINT = 4_000


class WorkerDiedError(Exception):
    """The worker came to its end over a document; the message is the reason."""

    def __init__(self, reason: str, *, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.timed_out = timed_out


class _Answer(NamedTuple):
    told: dict[str, Any]
    parsed: bytes


class WorkerProcess:
    """One worker process. One thread at a time may use it; any thread may kill it."""

    def __init__(self, config: ParsingConfig) -> None:
        self._config = config
        self.served = 0
        self.alive = True
        self._ready = False
        self._timed_out = False
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        settings = {"config": config.model_dump(mode="json"), "parent": os.getpid()}
        folders = [str(Path(folder or ".").absolute()) for folder in sys.path]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rag_pipeline.parsing.worker", json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            # The worker finds what its parent finds, and nothing in the folder where it happens to be started.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(folders), "PYTHONSAFEPATH": "1"},
        )

    def parse(self, data: bytes, path: str) -> Parsed:
        """Parse one file.

        Raises:
            ParseError: the document is refused; the message is the reason.
            ConfigError, MissingExtraError, TransientError: documents like this cannot be read at all.
            WorkerDiedError: the worker came to its end over it.
        """
        seconds = self._config.seconds_for(len(data))
        clock = threading.Timer(_CLOCK * seconds + _START, self._time_out)
        clock.daemon = True
        clock.start()
        try:
            answer = self._ask(data, path.encode("utf-8", "surrogateescape"))
        finally:
            clock.cancel()
        if answer is None:
            raise self._death(seconds)
        self.served += 1
        self.alive = not (answer.told["spent"] or self._timed_out)
        if "reason" in answer.told:
            raise ParseError(answer.told["reason"])
        if "missing" in answer.told:
            raise MissingExtraError(*answer.told["missing"])
        if "wrong" in answer.told:
            raise ConfigError(answer.told["wrong"])
        return Parsed.model_validate_json(answer.parsed)

    def kill(self) -> None:
        """End the process, whatever it is doing. A thread that waits for an answer gets none."""
        self.alive = False
        self._process.kill()

    def end(self) -> None:
        """End the process, wait until it is gone, and close what led to it."""
        self.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._complaints):
            if stream is not None:
                with contextlib.suppress(OSError):  # what is left to write finds nobody
                    stream.close()

    def _ask(self, data: bytes, path: bytes) -> _Answer | None:
        """The worker's answer, None where it died."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        self._ready = self._ready or read_frame(answers) is not None
        try:
            write_frames(requests, path, data)
        except OSError:
            return None
        told, parsed = read_frame(answers), read_frame(answers)
        return None if told is None or parsed is None else _Answer(json.loads(told), parsed)

    def _time_out(self) -> None:
        self._timed_out = True
        self._process.kill()

    def _death(self, seconds: int) -> WorkerDiedError | TransientError:
        self.alive = False
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_BREATH)  # its own end tells more than ours would
        self._process.kill()
        status = self._process.wait()
        if self._timed_out or status == -getattr(signal, "SIGXCPU", 0):
            return WorkerDiedError(needs_time(seconds), timed_out=True)
        if not self._ready:
            return TransientError(
                f"a process that reads documents did not start: {self._last_complaint() or f'exit {status}'}"
            )
        if status >= 0:
            return WorkerDiedError(f"its reader failed: {self._last_complaint() or f'exit code {status}'}")
        name = signal.Signals(-status).name if -status in signal.Signals._value2member_map_ else str(-status)
        if name in ("SIGKILL", "SIGABRT"):
            return WorkerDiedError(f"its reader was ended by {name}, most likely because it wanted too much memory")
        return WorkerDiedError(f"its reader crashed ({name})")

    def _last_complaint(self) -> str:
        size = self._complaints.seek(0, os.SEEK_END)
        self._complaints.seek(max(0, size - _LONGEST_COMPLAINT))
        lines = self._complaints.read().decode("utf-8", "replace").split("\n")
        return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")


def usable_cores() -> int:
    """The cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
