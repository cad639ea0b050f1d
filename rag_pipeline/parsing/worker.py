"""A process that reads documents, one after another: ``python -m rag_pipeline.parsing.worker SETTINGS``.

It says ``ready`` on its standard output, then takes requests from its standard input and answers them, all in frames. A
request is two frames: the path in UTF-8, and the bytes of the file. An answer is two as well: JSON that tells of a
``reason`` (the document is refused), ``missing`` (an extra), ``wrong`` (a setting) or none of them, and with ``spent``
that the worker ends now; and the parsed document as JSON, empty where there is none. A worker ends as well when its input
ends, and the kernel ends it when its parent dies.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from typing import Any, NamedTuple

from rag_pipeline.config import ParsingConfig
from rag_pipeline.errors import ConfigError, MissingExtraError, ParseError
from rag_pipeline.parsing.frames import read_frame, write_frames
from rag_pipeline.parsing.hooks import load_hooks
from rag_pipeline.parsing.parse import parse
from rag_pipeline.parsing.reasons import TOO_DEEP, TOO_MUCH_TEXT, first_line, needs_memory

try:
    import resource
except ImportError:  # Windows has no limits of this kind; the parent's clock is all there is
    resource = None  # type: ignore[assignment]

_MOST_DOCUMENTS = 1_000
"""A worker is replaced after so many, since libraries in C keep some memory of each."""
_MOST_CHARACTERS = 64 * 1024**2
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_NETWORK_EVENTS = frozenset({"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request"})


class _Answer(NamedTuple):
    told: dict[str, Any]
    parsed: bytes = b""


def main() -> None:
    """Serve until the input ends or the worker is spent."""
    settings = json.loads(sys.argv[1])
    config = ParsingConfig.model_validate(settings["config"])
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get among the answers
    _die_with(settings["parent"])
    _limit_memory(config.memory_mb)
    if config.ocr is None and config.passwords is None:
        sys.addaudithook(_no_network)
    write_frames(answers, b"ready")
    for served in range(1, _MOST_DOCUMENTS + 1):
        path, data = read_frame(requests), read_frame(requests)
        if path is None or data is None:
            return
        _limit_time(config.seconds_for(len(data)))
        answer = _answer(data, path.decode("utf-8", "surrogateescape"), config)
        spent = "spent" in answer.told or served == _MOST_DOCUMENTS or _is_swollen(config.memory_mb)
        write_frames(answers, json.dumps({**answer.told, "spent": spent}).encode(), answer.parsed)
        if spent:
            return


def _answer(data: bytes, path: str, config: ParsingConfig) -> _Answer:
    try:
        parsed = parse(data, path, load_hooks(config))
        if len(parsed.text) > _MOST_CHARACTERS:
            return _Answer({"reason": TOO_MUCH_TEXT, "spent": True})
        return _Answer({}, parsed.model_dump_json().encode())
    except ParseError as error:
        return _Answer({"reason": str(error)})
    except ConfigError as error:
        return _Answer({"wrong": str(error)})
    except MissingExtraError as error:
        return _Answer({"missing": [error.package, error.extra, error.purpose]})
    except MemoryError:
        return _Answer({"reason": needs_memory(config.memory_mb), "spent": True})
    except RecursionError:
        return _Answer({"reason": TOO_DEEP})
    except Exception as error:  # noqa: BLE001 - a reader may fail in any way; the document is refused, with the reason
        return _Answer({"reason": f"its reader failed: {type(error).__name__}: {first_line(error)}"})


def _die_with(parent: int) -> None:
    """Ignore an interrupt of the terminal, which the parent handles, and end when the parent ends, however it does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit()


def _limit_memory(megabytes: int) -> None:
    if resource is None:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):  # macOS knows this limit, and refuses to set it
        resource.setrlimit(resource.RLIMIT_AS, (megabytes * 1024**2, megabytes * 1024**2))


def _limit_time(seconds: int) -> None:
    """Let the kernel end this process after so many more seconds of processor time."""
    if resource is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + seconds + 1, hard))


def _is_swollen(megabytes: int) -> bool:
    if resource is None:
        return False
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit > megabytes * 1024**2 // 2


def _no_network(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _NETWORK_EVENTS:
        raise PermissionError("readers of documents fetch nothing from the network")


if __name__ == "__main__":
    main()
