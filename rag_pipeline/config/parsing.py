"""`parsing`: what reading one document may cost, and hooks of the team's own."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from rag_pipeline.config.strict import Strict

SECONDS_PER_MEGABYTE = 2
"""More than the slowest reader took of documents as people have them: docutils and pypdf, 1.5."""


def _check_function(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", name):
        raise ValueError(f"expected 'package.module:function', got {name!r}")
    return name


FunctionName = Annotated[str, AfterValidator(_check_function)]


class ParsingConfig(Strict):
    """Limits of the worker processes that read documents, and functions that they call.

    ``workers`` is how many there are at once, None for one a core (at most four). ``seconds`` is processor time for one
    document, to which each megabyte of it adds ``SECONDS_PER_MEGABYTE``; by the clock it may be twice as long.
    ``memory_mb`` is what one worker may allocate.

    ``ocr`` names a function ``(png: bytes, path: str, page: int) -> str``, called for pages without text.
    ``passwords`` names a function ``(path: str) -> Iterable[str]``, called for documents that want one.
    """

    workers: int | None = Field(default=None, ge=1, le=64)
    seconds: int = Field(default=10, ge=1, le=86_400)
    memory_mb: int = Field(default=768, ge=256)
    ocr: FunctionName | None = None
    passwords: FunctionName | None = None

    def seconds_for(self, size: int) -> int:
        """Seconds of processor time for a document of so many bytes."""
        return self.seconds + SECONDS_PER_MEGABYTE * (size // 1_000_000)
