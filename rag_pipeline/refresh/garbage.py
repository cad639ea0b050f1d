"""Garbage collection during a stage: only of what the stage itself makes."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import TypeVar

from rag_pipeline.refresh.context import RefreshContext

Report = TypeVar("Report")


def collects_own_garbage(stage: Callable[[RefreshContext], Report]) -> Callable[[RefreshContext], Report]:
    """A stage during which the collector passes over all objects that were there before.

    Those are the modules of large libraries for the most part, a hundred thousand objects and more. Looking through them
    for garbage, once or twice a stage, costs as much as a small stage.
    """

    @functools.wraps(stage)
    def run(context: RefreshContext) -> Report:
        if gc.get_freeze_count():  # somebody else's decision, who will not expect that it is undone
            return stage(context)
        gc.freeze()
        try:
            return stage(context)
        finally:
            gc.unfreeze()

    return run
