"""Arguments in, exit code out: 0 done, 1 failed, 2 bad usage or configuration. Errors are one readable line on stderr."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import NoReturn

from rag_pipeline.cli import cache, corpora, diff, doctor, evaluate, history, items, new, refresh, rollback, search
from rag_pipeline.errors import ConfigError, CredentialsError, MissingExtraError, QueryError, RagPipelineError
from rag_pipeline.lance import bucket_errors

DONE, FAILED, BAD_USAGE = 0, 1, 2


class _Parser(argparse.ArgumentParser):
    """Adds to an error what most often is behind it."""

    def error(self, message: str) -> NoReturn:
        if self.prog.endswith((" search", " explain")) or "unrecognized arguments" in message:
            message += "; quote a query of several words, and put -- before one that begins with a dash"
        super().error(message)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands. Each command's module adds its own arguments and names the function that runs it."""
    parser = _Parser(
        prog="rag-pipeline",
        description="Refresh corpora of documents into searchable snapshots, and search them.",
        epilog="RAG_PIPELINE_CORPORA and RAG_PIPELINE_DATA move the folders of the corpora and of their stores "
        "(by default ./corpora and ./data). `--` ends the options, so that a query may begin with a dash.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('rag-pipeline')}")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print JSON for machines")
    common.add_argument("--debug", action="store_true", help="print the trace of an error")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in (corpora, new, items, refresh, search, evaluate, history, diff, rollback, cache, doctor):
        module.add_arguments(commands, common)
    return parser


def run_command(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit code. Bad usage ends the process through argparse, with code 2 too.
    """
    arguments = build_parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        with bucket_errors("the data root"):
            return run(arguments)
    except RagPipelineError as error:
        if arguments.debug:
            traceback.print_exc()
        else:
            sys.stderr.write(f"rag-pipeline: {error}\n")
        return BAD_USAGE if isinstance(error, (ConfigError, CredentialsError, MissingExtraError, QueryError)) else FAILED
    except BrokenPipeError:
        # The reader of the output (head, less) has left; what Python flushes at exit must not raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:  # noqa: BLE001 - whatever it is, people get a line, and the trace when they ask for it
        if arguments.debug:
            traceback.print_exc()
        else:
            sys.stderr.write(f"rag-pipeline: {_unexpected(error)}\n")
        return FAILED


def _unexpected(error: Exception) -> str:
    """An error that is none of ours, in one line: of a disk most often."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text} (unexpected; --debug shows where, please report it)"
