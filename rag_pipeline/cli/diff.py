"""`rag-pipeline diff`: what changed from one snapshot to another."""

from __future__ import annotations

import argparse
from typing import Any

from rag_pipeline.cli.output import print_json, print_line, print_table
from rag_pipeline.config import corpora_root, data_root
from rag_pipeline.query import Index
from rag_pipeline.wording import counted

_SHOWN = 20


def add_arguments(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("diff", parents=[common], help="compare two snapshots of a corpus")
    parser.add_argument("corpus")
    parser.add_argument("before", type=int, metavar="A")
    parser.add_argument("after", type=int, metavar="B")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from rag_pipeline.corpus_files import find_corpus
    from rag_pipeline.evaluation import compare_snapshots, load_query_set, measured
    from rag_pipeline.index.store import CorpusStore

    before = Index.open(arguments.corpus, snapshot=arguments.before)
    after = Index.open(arguments.corpus, snapshot=arguments.after)
    corpus = find_corpus(corpora_root(), arguments.corpus)
    queries = load_query_set(corpus) if corpus.evaluation.queries is not None else None
    store = CorpusStore(data_root(), corpus.name)
    results = (measured(store, before, queries), measured(store, after, queries)) if queries is not None else None
    difference = compare_snapshots(before, after, queries, results)
    if arguments.json:
        identities = {"embedder_before": _embedder(before, after), "embedder_after": _embedder(after, before)}
        print_json({**difference.model_dump(mode="json", by_alias=True), **identities})
        return 0
    print_line(f"{difference.corpus}: from snapshot {difference.before} to {difference.after}")
    for sign, names in (
        ("+", difference.documents_added),
        ("~", difference.documents_changed),
        ("-", difference.documents_removed),
    ):
        for name in names[:_SHOWN]:
            print_line(f"  {sign} {name}")
        if len(names) > _SHOWN:
            print_line(f"  {sign} … {len(names) - _SHOWN} more")
    print_line(f"  chunks: {difference.chunks_added} added, {difference.chunks_removed} removed")
    if difference.configuration_changed:
        print_line(f"  configuration: {', '.join(difference.configuration_changed)} changed")
    if "embedder" in difference.configuration_changed:
        print_line(f"  embedder: before {_embedder(before, after)}, after {_embedder(after, before)}")
    if difference.figures is not None:
        print_line(f"  {counted(len(difference.moved), 'query')} with other first ten")
        for moved in difference.moved[:_SHOWN]:
            came_or_went = f"{len(moved.entered)} came in, {len(moved.left)} went out"
            what = came_or_went if moved.entered or moved.left else "other order"
            print_line(f"    {moved.query_id}: {moved.text[:80]} ({what})")
        rows = []
        for mode, found in difference.comparisons.items():
            means = [f"{found.before:.3f}", f"{found.after:.3f}", f"{found.difference:+.3f}"]
            rows.append([mode, *means, found.better, found.worse, f"{found.p_value:.3f}"])
        columns = ("ndcg@10", str(difference.before), str(difference.after), "change", "better", "worse", "p")
        print_table(columns, rows)
        print_line(f"  {counted(difference.figures[1].queries, 'query')}; p is of a paired randomisation test")
    return 0


def _embedder(index: Index, other: Index) -> str:
    """The identity of an index's embedder; with what its short form leaves out where only that tells it from another."""
    identity, compared = index.manifest.content.embedder, other.manifest.content.embedder
    if identity == compared or str(identity) != str(compared):
        return str(identity)
    apart = {name: value for name, value in identity.model_dump().items() if value != getattr(compared, name)}
    return f"{identity}, {', '.join(f'{name} {value!r}' for name, value in apart.items())}"
