"""`rag-pipeline history`: the snapshots of a corpus that are kept."""

from __future__ import annotations

import argparse
from typing import Any

from rag_pipeline.cli.output import print_json, print_table
from rag_pipeline.config import data_root


def add_arguments(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("history", parents=[common], help="list a corpus's snapshots, newest first")
    parser.add_argument("corpus")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from rag_pipeline.index.snapshot import read_manifest, read_pointer, snapshot_numbers
    from rag_pipeline.index.store import CorpusStore

    store = CorpusStore(data_root(), arguments.corpus)
    newest = read_manifest(store)
    pointer = read_pointer(store)
    manifests = [read_manifest(store, number) for number in reversed(snapshot_numbers(store))]
    rows = [
        {
            "snapshot": manifest.snapshot,
            "served": pointer is not None and manifest.snapshot == pointer.snapshot,
            "held": pointer is not None and manifest.snapshot == pointer.snapshot and pointer.held,
            "published": manifest.created_at.isoformat(),
            "documents": manifest.counts.documents,
            "stale": manifest.counts.stale_documents,
            "failed": manifest.counts.failed_documents,
            "chunks": manifest.counts.chunks,
            "embedder": str(manifest.content.embedder),
            "hash": manifest.hash,
            "run_id": manifest.run_id,
        }
        for manifest in manifests
    ]
    if arguments.json:
        print_json({"corpus": newest.corpus, "snapshots": rows})
    else:
        columns = ("snapshot", "served", "published", "documents", "stale", "failed", "chunks", "embedder", "hash")
        shown = []
        for row, manifest in zip(rows, manifests, strict=True):
            served = ("held" if row["held"] else "yes") if row["served"] else ""
            values = {**row, "served": served, "published": manifest.created_at, "hash": str(row["hash"])[:19]}
            shown.append([values[column] for column in columns])
        print_table(columns, shown)
    return 0
