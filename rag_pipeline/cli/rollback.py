"""`rag-pipeline rollback` and `rag-pipeline release`: serve an older snapshot, and let refreshes publish again."""

from __future__ import annotations

import argparse
from typing import Any

from rag_pipeline.cli.output import print_json, print_line
from rag_pipeline.config import data_root


def add_arguments(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("rollback", parents=[common], help="serve a kept snapshot and hold it until release")
    parser.add_argument("corpus")
    parser.add_argument("snapshot", type=int, metavar="N")
    parser.set_defaults(run=run_rollback)
    parser = commands.add_parser("release", parents=[common], help="let refreshes publish again after a rollback")
    parser.add_argument("corpus")
    parser.set_defaults(run=run_release)


def run_rollback(arguments: argparse.Namespace) -> int:
    from rag_pipeline.index.snapshot import rollback
    from rag_pipeline.index.store import CorpusStore

    manifest = rollback(CorpusStore(data_root(), arguments.corpus), arguments.snapshot)
    if arguments.json:
        print_json({"corpus": manifest.corpus, "snapshot": manifest.snapshot, "held": True, "hash": manifest.hash})
    else:
        print_line(f"{manifest.corpus}: snapshot {manifest.snapshot} is served and held")
        print_line(f"refreshes publish nothing until `rag-pipeline release {manifest.corpus}`")
    return 0


def run_release(arguments: argparse.Namespace) -> int:
    from rag_pipeline.index.snapshot import read_manifest, release
    from rag_pipeline.index.store import CorpusStore

    store = CorpusStore(data_root(), arguments.corpus)
    served = read_manifest(store)
    released = release(store)
    if arguments.json:
        print_json({"corpus": served.corpus, "snapshot": served.snapshot, "held": False, "released": released})
    elif released:
        print_line(f"{served.corpus}: released; snapshot {served.snapshot} is served until the next refresh publishes")
    else:
        print_line(f"{served.corpus}: nothing was held; snapshot {served.snapshot} is served")
    return 0
