"""One loop for all requests of a process, wherever they come from."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rag_pipeline.embedding.hosted.background import event_loop, run
from rag_pipeline_tests.embedding.hosted.support import in_another_process, tasks_left


async def loop_and(value: int) -> tuple[int, asyncio.AbstractEventLoop]:
    await asyncio.sleep(0)
    return value, asyncio.get_running_loop()


def test_it_gives_what_the_coroutine_returns() -> None:
    assert run(loop_and(7)) == (7, event_loop())


def test_it_works_beside_a_running_loop_of_the_caller() -> None:
    async def notebook() -> None:
        value, loop = run(loop_and(8))
        assert value == 8
        assert loop is not asyncio.get_running_loop()

    asyncio.run(notebook())


def test_callers_in_several_threads_share_the_loop_and_wait_side_by_side() -> None:
    waiting: list[int] = []
    all_wait = asyncio.Event()

    async def wait_for_the_others(value: int) -> tuple[int, asyncio.AbstractEventLoop]:
        waiting.append(value)
        if len(waiting) == 8:
            all_wait.set()
        await asyncio.wait_for(all_wait.wait(), 60)
        return value, asyncio.get_running_loop()

    results: list[tuple[int, asyncio.AbstractEventLoop]] = []
    threads = [threading.Thread(target=lambda n=n: results.append(run(wait_for_the_others(n)))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(value for value, _ in results) == list(range(8))
    assert {loop for _, loop in results} == {event_loop()}


def test_an_error_comes_back_as_it_is_and_leaves_nothing_running() -> None:
    class OwnError(Exception):
        pass

    async def fails() -> None:
        await asyncio.sleep(0)
        raise OwnError("as it is")

    for _ in range(3):
        with pytest.raises(OwnError, match="as it is"):
            run(fails())
    assert tasks_left() == []


@pytest.mark.skipif(os.name != "posix", reason="sends a signal to a thread")
def test_an_interrupt_cancels_and_waits_until_all_is_cleaned_up() -> None:
    begun, cleaned = threading.Event(), threading.Event()

    async def works() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.2)
            cleaned.set()

    def interrupt(thread: int) -> None:
        begun.wait()
        signal.pthread_kill(thread, signal.SIGINT)

    threading.Thread(target=interrupt, args=(threading.get_ident(),)).start()
    with pytest.raises(KeyboardInterrupt):
        run(works())
    assert cleaned.is_set()
    assert tasks_left() == []
    assert run(loop_and(9))[0] == 9, "the loop goes on"


@pytest.mark.skipif(os.name != "posix", reason="sends a signal to a thread")
def test_an_interrupt_at_any_moment_leaves_nothing_running() -> None:
    async def works() -> None:
        await asyncio.sleep(60)

    def interrupt(thread: int, seconds: float) -> None:
        time.sleep(seconds)
        signal.pthread_kill(thread, signal.SIGINT)

    def run_and_be_interrupted(sender: threading.Thread) -> None:
        sender.start()
        run(works())

    for number in range(40):
        sender = threading.Thread(target=interrupt, args=(threading.get_ident(), number * 5e-6))
        with pytest.raises(KeyboardInterrupt):
            run_and_be_interrupted(sender)
        sender.join()
    assert tasks_left() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_has_a_loop_of_its_own() -> None:
    program = """
import asyncio, os, sys
from rag_pipeline.embedding.hosted.background import event_loop, run

async def value():
    await asyncio.sleep(0.01)
    return 7

assert run(value()) == 7
before = event_loop()
child = os.fork()
if child == 0:
    os._exit(0 if run(value()) == 7 and event_loop() is not before else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert event_loop() is before and run(value()) == 7
"""
    ended = in_another_process(program)
    assert ended.returncode == 0, ended.stderr


def test_a_process_ends_while_the_loop_still_imports_what_a_destructor_needs(tmp_path: Path) -> None:
    # Without an end of its own, Python stops the loop's thread with the module's lock in its hands.
    (tmp_path / "slow.py").write_text("import threading, time\nthreading.begun.set()\ntime.sleep(1)\n")
    script = (
        "import sys, threading\nfrom rag_pipeline.embedding.hosted.background import event_loop\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\nthreading.begun = threading.Event()\n"
        "class Client:\n    def __del__(self):\n        import slow\n        print('closed', flush=True)\n"
        "event_loop().call_soon_threadsafe(__import__, 'slow')\nthreading.begun.wait()\n"
        "client = Client()\nclient.itself = client\ndel client\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("closed\n", "", 0)
