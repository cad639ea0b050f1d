"""`rag-pipeline evaluate`: how well a corpus's snapshot answers its query set, or its own titles and headings."""

from __future__ import annotations

import argparse
import os
from typing import Any

from rag_pipeline.cli import generation
from rag_pipeline.cli.output import print_json, print_line, print_table
from rag_pipeline.cli.warnings import warnings_on_stderr
from rag_pipeline.config import corpora_root, data_root
from rag_pipeline.errors import ConfigError
from rag_pipeline.query import Index
from rag_pipeline.wording import counted

ALL_LOCAL = "all-local"
_RERANK = (
    "measure hybrid searches under these rerankers as well: cross-encoder, late-interaction, litellm or llm, or NAME:MODEL; "
    f"{ALL_LOCAL} takes those that are here and need no provider"
)


def add_arguments(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "evaluate", parents=[common], help="measure a corpus's snapshot on its query set, or on its titles and headings"
    )
    parser.add_argument("corpus")
    parser.add_argument("--snapshot", type=int, metavar="N", help="a kept snapshot instead of the one that is served")
    parser.add_argument("--rerank", "--rerankers", default="", metavar="NAME[,NAME…]", help=_RERANK)
    generation.add_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from rag_pipeline.corpus_files import find_corpus
    from rag_pipeline.evaluation import SHOWN_METRICS, load_query_set, measured, summary
    from rag_pipeline.index.store import CorpusStore

    generation.check_arguments(arguments)
    corpus = find_corpus(corpora_root(), arguments.corpus)
    if arguments.generation:
        if arguments.rerank:
            raise ConfigError("evaluate: --rerank: expected without --generation")
        return generation.run(arguments, corpus)
    queries = load_query_set(corpus) if corpus.evaluation.queries is not None else None
    index = Index.open(arguments.corpus, snapshot=arguments.snapshot)
    rerankers, left_out = _rerankers(index, arguments.rerank)
    for name, reason in left_out.items():
        print_line(f"{name} is left out: {reason}", stderr=True)
    lost = queries.lost(index.manifest.content.documents) if queries is not None else None
    if lost is not None:
        print_line(lost, stderr=True)
    with warnings_on_stderr():
        results = measured(CorpusStore(data_root(), corpus.name), index, queries, rerankers)
    evaluation = summary(index, results)
    figures = {mode: values.model_dump(by_alias=True) for mode, values in evaluation.modes.items()}
    if arguments.json:
        query_set = {"kind": results.kind, "hash": results.query_set, "queries": results.queries}
        shown = {"corpus": evaluation.corpus, "snapshot": evaluation.snapshot, "query_set": query_set, "modes": figures}
        fusion = {**index.fusion.model_dump(mode="json"), "tuning": _tuning(index)}
        print_json({**shown, "fusion": fusion, "left_out": left_out} if left_out else {**shown, "fusion": fusion})
        return 0
    if queries is None:
        asked = (
            f"{counted(results.queries, 'known item')} (titles and headings; evaluation in corpus.yaml names no query set)"
        )
    else:
        asked = f"{counted(results.queries, 'query')} of {corpus.folder / str(corpus.evaluation.queries)}"
    print_line(f"{evaluation.corpus}, snapshot {evaluation.snapshot}: {asked}")
    rows = [[mode, *(f"{values[name]:.3f}" for name in SHOWN_METRICS)] for mode, values in figures.items()]
    print_table(("mode", *SHOWN_METRICS), rows)
    print_line(described_fusion(index))
    return 0


def described_fusion(index: Index) -> str:
    """How hybrid searches fuse, in a line."""
    fusion, tuned = index.fusion, index.manifest.fusion
    if fusion.method == "rrf":
        return "hybrid: reciprocal ranks"
    line = f"hybrid: {fusion.method}, weight of BM25 {fusion.bm25_weight:g}"
    if tuned is None or not fusion.tuned:
        return line
    return (
        f"{line}, tuned on {counted(tuned.tuned_on, 'query')} (default {tuned.default_weight:g}); "
        f"{tuned.metric} of the other {tuned.reported_on}: {tuned.tuned_figure:.3f}, "
        f"with the default {tuned.default_figure:.3f}"
    )


def _tuning(index: Index) -> dict[str, Any] | None:
    tuned = index.manifest.fusion
    return tuned.model_dump(mode="json") if tuned is not None and index.fusion.tuned else None


def _rerankers(index: Index, given: str) -> tuple[list[str], dict[str, str]]:
    """The rerankers that are named, and why others are left out."""
    names = list(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    if ALL_LOCAL not in names:
        return names, {}
    # Before anything that reads it is imported: a model that is not here stays away.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    found = index.local_rerankers()
    there = [name for name, reason in found.items() if reason is None]
    others = [name for name in names if name != ALL_LOCAL and name not in there]
    return [*there, *others], {name: reason for name, reason in found.items() if reason is not None}
