"""`rag-pipeline evaluate`: how well a corpus's snapshot answers its query set."""

from __future__ import annotations

import argparse
from typing import Any

from rag_pipeline.cli.output import print_json, print_line, print_table
from rag_pipeline.config import corpora_root
from rag_pipeline.query import Index


def add_arguments(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("evaluate", parents=[common], help="measure a corpus's snapshot on its query set")
    parser.add_argument("corpus")
    parser.add_argument("--snapshot", type=int, metavar="N", help="a kept snapshot instead of the one that is served")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from rag_pipeline.corpus_files import find_corpus
    from rag_pipeline.evaluation import evaluate, load_query_set

    queries = load_query_set(find_corpus(corpora_root(), arguments.corpus))
    evaluation = evaluate(Index.open(arguments.corpus, snapshot=arguments.snapshot), queries)
    figures = {mode: values.model_dump(by_alias=True) for mode, values in evaluation.modes.items()}
    if arguments.json:
        print_json({"corpus": evaluation.corpus, "snapshot": evaluation.snapshot, "modes": figures})
        return 0
    print_line(f"{evaluation.corpus}, snapshot {evaluation.snapshot}, {len(queries.queries)} queries")
    names = ("ndcg@10", "recall@100", "mrr@10")
    print_table(("mode", *names), [[mode, *(f"{values[name]:.3f}" for name in names)] for mode, values in figures.items()])
    return 0
