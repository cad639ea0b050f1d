#!/usr/bin/env python3
"""BM25 under other settings: `python benchmarks/lexical.py FOLDER… [--together] [--grid]`.

Each FOLDER is a collection in BEIR layout: corpus.jsonl, queries.jsonl, qrels.tsv. Its documents are read and cut as a
refresh does it. Prints nDCG@10, recall@10 and recall@100 for the language that `auto` finds, for English and for no
stemmer, each with and without leaving stop words out of queries. `--together` measures all folders as one corpus, each
one's queries by themselves. `--grid` tries values of k1, b and all variants with the language found. `--languages` adds
languages by name.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import pyarrow as pa

from rag_pipeline.config import LexicalConfig
from rag_pipeline.corpus_files import load_corpus
from rag_pipeline.evaluation.metrics import ndcg, recall
from rag_pipeline.index.analyzer import Analyzer
from rag_pipeline.index.bm25 import open_bm25, write_segments
from rag_pipeline.index.bm25.scoring import PostingsBM25
from rag_pipeline.index.store import CHUNKS
from rag_pipeline.lance import read
from rag_pipeline.refresh import STAGES, RefreshContext
from rag_pipeline.refresh.embeddings import indexed_text

_CHUNKS_RANKED = 1000
_DOCUMENTS = 100
_K1 = (0.9, 1.2, 1.5, 1.8)
_B = (0.4, 0.6, 0.75, 0.9)
_VARIANTS = ("lucene", "okapi", "l", "plus")


class Query(NamedTuple):
    text: str
    grades: dict[str, int]


class Collection(NamedTuple):
    """Chunks of a corpus, the language that was found in them, and queries by the folder that they are from."""

    chunk_ids: pa.Array
    texts: pa.Array
    document_of: dict[str, str]
    language: str
    queries: dict[str, list[Query]]


def collection(folders: Sequence[Path], work: Path) -> Collection:
    """Read and cut folders as one corpus; each one's document ids get its place in the list in front."""
    with (work / "documents.jsonl").open("w", encoding="utf-8") as file:
        for place, folder in enumerate(folders):
            for record in _records(folder / "corpus.jsonl"):
                record = {"_id": f"{place}/{record['_id']}", "title": record.get("title", ""), "text": record["text"]}
                file.write(json.dumps(record) + "\n")
    corpus = work / "measured"
    corpus.mkdir()
    fields = "{id: _id, title: title, text: text}"
    yaml = f"source: {{path: ../documents.jsonl, format: jsonl, fields: {fields}}}\nsafety: {{max_failed_fraction: 1}}\n"
    (corpus / "corpus.yaml").write_text(yaml, encoding="utf-8")
    context = RefreshContext(load_corpus(corpus), work / "data")
    for stage in ("documents", "chunks"):
        STAGES[stage](context)
    language = STAGES["bm25_index"](context).model_dump()["language"]
    rows = read(context.store.table(CHUNKS), ["chunk_id", "document_id", "context", "text"]).sort_by("chunk_id")
    chunk_ids, documents = (rows[name].combine_chunks() for name in ("chunk_id", "document_id"))
    texts = pa.chunked_array([indexed_text(batch) for batch in rows.to_batches()]).combine_chunks()
    document_of = dict(zip(chunk_ids.to_pylist(), documents.to_pylist(), strict=True))
    queries = {str(folder): _queries(folder, place) for place, folder in enumerate(folders)}
    return Collection(chunk_ids, texts, document_of, language, queries)


def _records(file: Path) -> Iterator[dict[str, str]]:
    with file.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _queries(folder: Path, place: int) -> list[Query]:
    texts = {record["_id"]: record["text"] for record in _records(folder / "queries.jsonl")}
    grades: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        query, document, grade = line.split("\t")
        if query in texts and grade.isdigit():
            grades.setdefault(query, {})[f"{place}/{document}"] = int(grade)
    return [Query(texts[query], judged) for query, judged in grades.items() if any(judged.values())]


def figures(found: Collection, index: PostingsBM25, terms: dict[str, list[str]], queries: Sequence[Query]) -> str:
    """Means over queries; documents are ranked by their best chunk."""
    rankings = []
    for query in queries:
        ordinals, _ = index.top(terms[query.text], _CHUNKS_RANKED)
        chunks = index.chunk_ids.take(pa.array(ordinals)).to_pylist()
        rankings.append(list(dict.fromkeys(found.document_of[chunk] for chunk in chunks))[:_DOCUMENTS])
    judged = list(zip(rankings, (query.grades for query in queries), strict=True))
    means = (
        fmean(ndcg(ranked, grades, 10) for ranked, grades in judged),
        fmean(recall(ranked, grades, 10) for ranked, grades in judged),
        fmean(recall(ranked, grades, 100) for ranked, grades in judged),
    )
    return "  ".join(f"{mean:.4f}" for mean in means)


def measure(folders: Sequence[Path], languages: Sequence[str], grid: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        found = collection(folders, work)
        chosen = dict.fromkeys((found.language, "english", "none", *languages))
        print(f"{', '.join(map(str, folders))}: {len(found.chunk_ids)} chunks, auto found {found.language}")
        print(f"  {'':44}nDCG@10  R@10    R@100")
        for language in chosen:
            config = LexicalConfig.model_validate({"language": language})
            analyzer = Analyzer(config)
            segments = write_segments(work / language, [(found.chunk_ids, found.texts)], analyzer)
            for folder, queries in found.queries.items():
                asked = {query.text: analyzer.query_terms(query.text) for query in queries}
                every = {query.text: analyzer.terms(query.text) for query in queries}
                label = f"{language} {Path(folder).name if len(folders) > 1 else ''}"
                index = open_bm25(work / language, segments, config)
                print(f"  {label:44}{figures(found, index, asked, queries)}")
                if asked != every:
                    print(f"  {label + ' with stop words':44}{figures(found, index, every, queries)}")
                if not grid or language != found.language:
                    continue
                for variant, k1, b in itertools.product(_VARIANTS, _K1, _B):
                    if variant == "lucene" or (k1, b) in ((1.2, 0.75), (1.5, 0.75)):
                        settings = {"language": language, "variant": variant, "k1": k1, "b": b}
                        index = open_bm25(work / language, segments, LexicalConfig.model_validate(settings))
                        print(f"  {f'{label} {variant} k1 {k1} b {b}':44}{figures(found, index, asked, queries)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--together", action="store_true", help="all folders are one corpus")
    parser.add_argument("--grid", action="store_true", help="other values of k1, b and the variant as well")
    parser.add_argument("--languages", nargs="*", default=[], help="languages to try besides")
    arguments = parser.parse_args()
    folders = [folder for folder in arguments.folders if (folder / "corpus.jsonl").is_file()]
    if not folders:
        print("lexical benchmark skipped: name folders with corpus.jsonl, queries.jsonl and qrels.tsv")
        return
    for group in [folders] if arguments.together else [[folder] for folder in folders]:
        measure(group, arguments.languages, arguments.grid)


if __name__ == "__main__":
    main()
