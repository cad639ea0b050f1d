"""Readers that may crash, hang or eat memory, in worker processes that are ended in time and replaced."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import NamedTuple

from typing_extensions import Self

from rag_pipeline.config import ParsingConfig
from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import ParseError, RagPipelineError
from rag_pipeline.parsing.parse import may_harm, parse
from rag_pipeline.parsing.reasons import TOO_DEEP, first_line
from rag_pipeline.parsing.worker_process import WorkerDiedError, WorkerProcess, usable_cores

_MOST_WORKERS = 4


class Parsing(NamedTuple):
    """A document that is being parsed.

    ``ready`` tells that ``result`` need not wait for a worker; ``result`` returns the document, or raises ParseError with
    the reason why there is none.
    """

    ready: Callable[[], bool]
    result: Callable[[], Parsed]


class Parsers:
    """Parses files: harmless ones here and when they are asked for, all others in workers, several at once.

    Workers are started when there is something for them, kept for the next document, and ended on leaving the context.
    """

    def __init__(self, config: ParsingConfig) -> None:
        self._config = config
        self.workers = config.workers or min(_MOST_WORKERS, usable_cores())
        self._threads: ThreadPoolExecutor | None = None
        self._idle: SimpleQueue[WorkerProcess] = SimpleQueue()
        self._all: set[WorkerProcess] = set()
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._closed = True
            workers = list(self._all)
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.kill()
            self._threads.shutdown()
            for worker in workers:
                worker.end()

    def submit(self, data: bytes, path: str) -> Parsing:
        """Begin to parse a file."""
        if not may_harm(data, path):
            return Parsing(lambda: True, lambda: _parse_here(data, path))
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.workers, "parsing")
        future = self._threads.submit(self._parse, data, path)
        return Parsing(future.done, future.result)

    def _parse(self, data: bytes, path: str) -> Parsed:
        while True:
            worker = self._worker()
            fresh = worker.served == 0
            try:
                return worker.parse(data, path)
            except WorkerDiedError as death:
                # It may have died of what earlier documents left behind: only the death of a fresh worker counts.
                if fresh or death.timed_out:
                    raise ParseError(str(death)) from None
            finally:
                self._give_back(worker)

    def _worker(self) -> WorkerProcess:
        try:
            return self._idle.get_nowait()
        except Empty:
            pass
        with self._lock:
            if self._closed:
                raise ParseError("the refresh ended before it was read")
            worker = WorkerProcess(self._config)
            self._all.add(worker)
        return worker

    def _give_back(self, worker: WorkerProcess) -> None:
        if worker.alive:
            self._idle.put(worker)
            return
        with self._lock:
            self._all.discard(worker)
        worker.end()


def _parse_here(data: bytes, path: str) -> Parsed:
    """Parse a harmless file in this process. A reader that fails all the same costs its document, as in a worker."""
    try:
        return parse(data, path)
    except RagPipelineError:
        raise
    except RecursionError:
        raise ParseError(TOO_DEEP) from None
    except Exception as error:
        raise ParseError(f"its reader failed: {type(error).__name__}: {first_line(error)}") from error
