"""`rag-pipeline corpora`: which corpora there are, and what is served of each."""

from __future__ import annotations

import argparse
from typing import Any

from rag_pipeline.cli.output import print_json, print_line, print_table
from rag_pipeline.config import corpora_root, data_root


def add_arguments(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("corpora", parents=[common], help="list the corpora and what is served of each")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from rag_pipeline.corpus_files import load_corpora
    from rag_pipeline.index.snapshot import is_held, served_manifest
    from rag_pipeline.index.store import CorpusStore

    root = corpora_root()
    listed: list[dict[str, Any]] = []
    for corpus in load_corpora(root):
        store = CorpusStore(data_root(), corpus.name)
        served = served_manifest(store)
        listed.append(
            {
                "corpus": corpus.name,
                "description": corpus.description,
                "source": corpus.source_address,
                "embedding": corpus.embedding.provider,
                "schedule": f"{corpus.schedule.cron} {corpus.schedule.timezone}" if corpus.schedule.enabled else None,
                "snapshot": served.snapshot if served else None,
                "held": served is not None and is_held(store),
                "documents": served.counts.documents if served else None,
                "chunks": served.counts.chunks if served else None,
                "published": served.created_at if served else None,
            }
        )
    if arguments.json:
        print_json([{**row, "published": row["published"].isoformat() if row["published"] else None} for row in listed])
    elif not listed:
        print_line(f"no corpora under {root}; `rag-pipeline new NAME --source PATH` makes one")
    else:
        columns = ("corpus", "snapshot", "documents", "chunks", "published", "embedding", "schedule", "description")
        shown = [{**row, "snapshot": f"{row['snapshot']} (held)" if row["held"] else row["snapshot"]} for row in listed]
        print_table(columns, [[row[column] for column in columns] for row in shown])
    return 0
