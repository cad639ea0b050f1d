"""The event loop on which all requests of a process run, in a thread of its own.

One loop keeps connections open from one search to the next, and works wherever it is called from: beside a loop of the
caller's, in a thread, in a notebook.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

_CLEAN_UP_SECONDS = 30
"""How long an interrupt waits for vectors that are being stored."""

_SLEEP_SECONDS = 0.5
"""An interrupt that comes just before a thread falls asleep on a lock is seen only when it wakes up."""

_EXIT_SECONDS = 10
"""How long the end of the process waits for the loop; an import that it is busy with takes some seconds."""


class _Running(NamedTuple):
    process: int
    loop: asyncio.AbstractEventLoop
    thread: threading.Thread


_lock = threading.Lock()
_running: _Running | None = None


def event_loop() -> asyncio.AbstractEventLoop:
    """The loop of this process; a forked one starts its own."""
    global _running
    with _lock:
        if _running is None or _running.process != os.getpid():
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=loop.run_forever, name="rag-pipeline-embedding", daemon=True)
            thread.start()
            _running = _Running(os.getpid(), loop, thread)
            end_first_at_exit()
        return _running.loop


def end_first_at_exit() -> None:
    """See that the loop ends before whatever has asked until now to be called at exit, such as LiteLLM.

    Python stops a daemon thread wherever it is. One that LiteLLM keeps importing after its answer would hold the lock of
    a module, on which the destructors of LiteLLM's clients then wait for ever: 6 of 100 processes did.
    """
    atexit.unregister(_end)
    atexit.register(_end)


def _end() -> None:
    if _running is None or _running.process != os.getpid():
        return
    _running.loop.call_soon_threadsafe(_running.loop.create_task, _cancel_all_and_stop())
    _running.thread.join(_EXIT_SECONDS)


async def _cancel_all_and_stop() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    asyncio.get_running_loop().stop()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run on the loop and wait. An interrupt cancels it, and waits until it has cleaned up."""
    loop = event_loop()
    result: Future[T] = Future()
    over = threading.Event()
    tasks: list[asyncio.Task[T]] = []

    def start() -> None:
        tasks.append(loop.create_task(coroutine))
        tasks[0].add_done_callback(finish)

    def finish(task: asyncio.Task[T]) -> None:
        if task.cancelled():
            result.cancel()
        elif (error := task.exception()) is not None:
            result.set_exception(error)
        else:
            result.set_result(task.result())
        over.set()

    def stop() -> None:
        # An interrupt may come at any moment, also before anything was started.
        if tasks:
            tasks[0].cancel()
        else:
            coroutine.close()
            over.set()

    try:
        loop.call_soon_threadsafe(start)
        while not over.wait(_SLEEP_SECONDS):
            pass
        return result.result()
    except BaseException:
        if not over.is_set():
            loop.call_soon_threadsafe(stop)
            over.wait(_CLEAN_UP_SECONDS)
        raise
