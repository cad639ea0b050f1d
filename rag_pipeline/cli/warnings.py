"""What the library warns of, on stderr, one line each."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"rag-pipeline: warning: {record.getMessage()}\n")


@contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Show the warnings of this package, whatever logging is set up."""
    logger = logging.getLogger("rag_pipeline")
    handler = _Lines(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
