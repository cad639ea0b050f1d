"""`rag-pipeline doctor`: check configuration, sources and stores, and say what to do about what is wrong."""

from __future__ import annotations

import argparse
from typing import Any

from rag_pipeline.cli.output import print_json, print_line
from rag_pipeline.config import corpora_root, data_root
from rag_pipeline.wording import counted


def add_arguments(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("doctor", parents=[common], help="check the corpora's configuration, sources and stores")
    parser.add_argument("corpora", nargs="*", metavar="CORPUS", help="by default all")
    parser.add_argument("--fix", action="store_true", help="delete what killed refreshes left behind")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from rag_pipeline.corpus_files import find_corpus, load_corpora
    from rag_pipeline.index.doctor import examine
    from rag_pipeline.index.store import CorpusStore
    from rag_pipeline.refresh.inputs import examine_inputs

    root = corpora_root()
    names = list(dict.fromkeys(arguments.corpora))
    corpora = [find_corpus(root, name) for name in names] if names else load_corpora(root)
    fixed = sum(_fix(corpus.name) for corpus in corpora) if arguments.fix else 0
    findings = [
        finding
        for corpus in corpora
        for finding in (*examine_inputs(corpus), *examine(CorpusStore(data_root(), corpus.name)))
    ]
    if arguments.json:
        found = [finding.model_dump(mode="json") for finding in findings]
        print_json({"corpora": [corpus.name for corpus in corpora], "findings": found, "fixed": fixed})
    else:
        if arguments.fix:
            print_line(f"{counted(fixed, 'leftover')} deleted")
        for finding in findings:
            print_line(f"{finding.severity}: {finding.corpus}: {finding.message}")
        errors = sum(finding.severity == "error" for finding in findings)
        print_line(
            f"{counted(len(corpora), 'corpus')} examined: {counted(errors, 'error')}, "
            f"{counted(len(findings) - errors, 'warning')}"
        )
    return 1 if any(finding.severity == "error" for finding in findings) else 0


def _fix(corpus: str) -> int:
    from rag_pipeline.index.doctor import clear_leftovers
    from rag_pipeline.index.lock import RefreshLock
    from rag_pipeline.index.store import CorpusStore

    store = CorpusStore(data_root(), corpus)
    if not store.root.is_dir():
        return 0
    lock = RefreshLock.acquire(store, run_id=None)
    try:
        return clear_leftovers(store)
    finally:
        lock.release()
