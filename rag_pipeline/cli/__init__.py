"""The rag-pipeline command."""

from __future__ import annotations

import sys
from collections.abc import Sequence

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code.

    The commands are imported in here, so that Ctrl-C while they load ends as quietly as it does later.
    """
    try:
        from rag_pipeline.cli.commands import run_command

        return run_command(argv)
    except KeyboardInterrupt:
        sys.stderr.write("rag-pipeline: stopped; a refresh goes on where it was when it is started again\n")
        return INTERRUPTED


__all__ = ["main"]
