"""Answers of a store that are cut off: obstore and Lance make a request again that fails, but not one of these."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from rag_pipeline.storage.failures import failure_of

PAUSES_SECONDS = (0.2, 0.4, 0.6, 0.8)
"""Between the tries: a server that is started anew gets two seconds."""

Found = TypeVar("Found")


def is_cut(error: Exception) -> bool:
    """Whether the store broke off while it answered."""
    failure = failure_of(error)
    return failure is not None and failure.kind == "cut"


def read_again(read: Callable[[], Found]) -> Found:
    """What a request gives, made anew as long as its answer is cut off."""
    for pause in PAUSES_SECONDS:
        try:
            return read()
        except Exception as error:
            if not is_cut(error):
                raise
        time.sleep(pause)
    return read()
