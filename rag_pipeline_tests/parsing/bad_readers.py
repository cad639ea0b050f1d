"""Functions that a corpus may name as `parsing.ocr`, each of which does to its worker what a hostile file might."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time


def hang(png: bytes, path: str, page: int) -> str:
    while True:
        pass


def processor_limit(png: bytes, path: str, page: int) -> str:
    return f"May compute for {resource.getrlimit(resource.RLIMIT_CPU)[0]} seconds."


def sleep(png: bytes, path: str, page: int) -> str:
    time.sleep(600)
    return ""


def crash(png: bytes, path: str, page: int) -> str:
    return ctypes.string_at(0).decode()


def abort(png: bytes, path: str, page: int) -> str:
    os.abort()


def kill(png: bytes, path: str, page: int) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def leave(png: bytes, path: str, page: int) -> str:
    raise SystemExit("out of order")


def eat(png: bytes, path: str, page: int) -> str:
    return str(len(bytearray(4 * 1024**3)))


def chat(png: bytes, path: str, page: int) -> str:
    os.write(1, b"a library that talks\n")
    return "words that were recognised"


def die_second(png: bytes, path: str, page: int) -> str:
    """Die in a worker that has read a document before, as of what that one left behind."""
    global _calls
    _calls += 1
    if _calls > 1:
        os.abort()
    return f"words of {path}"


_calls = 0
