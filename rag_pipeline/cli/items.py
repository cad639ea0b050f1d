"""`rag-pipeline put` and `rag-pipeline remove`: single documents, written to a corpus's source and deleted from it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from rag_pipeline.cli.output import print_json, print_line
from rag_pipeline.cli.refresh import outcome_json, print_outcome, refresh_corpus, seconds
from rag_pipeline.config import corpora_root
from rag_pipeline.errors import ConfigError


def add_arguments(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("put", parents=[common], help="write one document into a corpus's source")
    parser.add_argument("corpus")
    parser.add_argument("path", metavar="SOURCE_REF", help="its path in the source, such as guide/setup.md")
    parser.add_argument("file", metavar="FILE", help="the file with its content; - reads standard input")
    _add_refresh(parser)
    parser.set_defaults(run=run_put)
    parser = commands.add_parser("remove", parents=[common], help="delete one document from a corpus's source")
    parser.add_argument("corpus")
    parser.add_argument("path", metavar="SOURCE_REF", help="its path in the source, as hits show it")
    _add_refresh(parser)
    parser.set_defaults(run=run_remove)


def _add_refresh(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--refresh", action="store_true", help="refresh the corpus at once")
    parser.add_argument(
        "--wait", type=seconds, default=0.0, metavar="SECONDS", help="with --refresh: wait for another refresh to finish"
    )


def run_put(arguments: argparse.Namespace) -> int:
    from rag_pipeline.corpus_files import find_corpus
    from rag_pipeline.sources import put_item

    corpus = find_corpus(corpora_root(), arguments.corpus)
    written = put_item(corpus, arguments.path, _content(arguments.file))
    return _finish(arguments, corpus, "put", written)


def run_remove(arguments: argparse.Namespace) -> int:
    from rag_pipeline.corpus_files import find_corpus
    from rag_pipeline.sources import remove_item

    corpus = find_corpus(corpora_root(), arguments.corpus)
    removed = remove_item(corpus, arguments.path)
    return _finish(arguments, corpus, "removed", removed, removed_paths=(removed.path,))


def _content(file: str) -> bytes:
    if file == "-":
        if sys.stdin is None:
            raise ConfigError("FILE: - reads standard input, which is closed here")
        return sys.stdin.buffer.read()
    try:
        return Path(file).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"FILE: {file}: cannot be read: {error.strerror}") from None


def _finish(arguments: argparse.Namespace, corpus: Any, done: str, item: Any, removed_paths: tuple[str, ...] = ()) -> int:
    """Say what was done, and refresh when that was asked for."""
    said = {"corpus": corpus.name, "action": done, **item.model_dump(mode="json"), "refresh": None}
    if not arguments.json:
        print_line(f"{corpus.name}: {done} {item.path} ({item.size} bytes): {item.address}")
    if not arguments.refresh:
        if arguments.json:
            print_json(said)
        else:
            print_line(f"next: rag-pipeline refresh {corpus.name}")
        return 0
    outcome = refresh_corpus(corpus, arguments, wait_seconds=arguments.wait, removed=list(removed_paths))
    print_outcome(outcome, corpus, arguments)
    if arguments.json:
        print_json({**said, "refresh": outcome_json(outcome)})
    if outcome.error is None:
        return 0
    return 2 if outcome.misconfigured else 1
