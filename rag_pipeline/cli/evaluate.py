"""`rag-pipeline evaluate`: how well a corpus's snapshot answers its query set, or its own titles and headings."""

from __future__ import annotations

import argparse
from typing import Any

from rag_pipeline.cli import generation
from rag_pipeline.cli.output import print_json, print_line, print_table
from rag_pipeline.config import corpora_root, data_root
from rag_pipeline.query import Index


def add_arguments(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "evaluate", parents=[common], help="measure a corpus's snapshot on its query set, or on its titles and headings"
    )
    parser.add_argument("corpus")
    parser.add_argument("--snapshot", type=int, metavar="N", help="a kept snapshot instead of the one that is served")
    generation.add_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from rag_pipeline.corpus_files import find_corpus
    from rag_pipeline.evaluation import SHOWN_METRICS, load_query_set, measured, summary
    from rag_pipeline.index.store import CorpusStore

    generation.check_arguments(arguments)
    corpus = find_corpus(corpora_root(), arguments.corpus)
    if arguments.generation:
        return generation.run(arguments, corpus)
    queries = load_query_set(corpus) if corpus.evaluation.queries is not None else None
    index = Index.open(arguments.corpus, snapshot=arguments.snapshot)
    results = measured(CorpusStore(data_root(), corpus.name), index, queries)
    evaluation = summary(index, results)
    figures = {mode: values.model_dump(by_alias=True) for mode, values in evaluation.modes.items()}
    if arguments.json:
        query_set = {"kind": results.kind, "hash": results.query_set, "queries": results.queries}
        shown = {"corpus": evaluation.corpus, "snapshot": evaluation.snapshot, "query_set": query_set, "modes": figures}
        print_json(shown)
        return 0
    if queries is None:
        asked = f"{results.queries} known items (titles and headings; evaluation in corpus.yaml names no query set)"
    else:
        asked = f"{results.queries} queries of {corpus.folder / str(corpus.evaluation.queries)}"
    print_line(f"{evaluation.corpus}, snapshot {evaluation.snapshot}: {asked}")
    rows = [[mode, *(f"{values[name]:.3f}" for name in SHOWN_METRICS)] for mode, values in figures.items()]
    print_table(("mode", *SHOWN_METRICS), rows)
    return 0
