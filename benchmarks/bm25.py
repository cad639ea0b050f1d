#!/usr/bin/env python3
"""Our BM25 beside rank_bm25: `python benchmarks/bm25.py [FOLDER] [--chunks N] [--queries N]`.

Cuts the folder's Markdown (or generated text) into chunks of about a hundred words. (a) Over 1,000 chunks, the largest
difference of any score between the two, for every variant. (b) Over N chunks, the median CPU time of a search for the ten
best by either, over the same terms; what analysing, writing and opening cost; and the size on disk. rank_bm25 holds all
terms in memory: reckon with 2 GB for 100,000 chunks.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import rank_bm25

from rag_pipeline.config import LexicalConfig
from rag_pipeline.contracts import BM25Segment
from rag_pipeline.index.analyzer import Analyzer
from rag_pipeline.index.bm25 import open_bm25, verify_segment, write_segments

_WORDS_PER_CHUNK = 100
_CHUNKS_COMPARED = 1000
_REFERENCE_QUERIES = 20
"""Searches timed with rank_bm25, which takes its time."""


class Lucene(rank_bm25.BM25Okapi):  # type: ignore[misc]  # rank_bm25 has no types
    """The variant that rank_bm25 lacks."""

    def _calc_idf(self, nd: dict[str, int]) -> None:
        for word, frequency in nd.items():
            self.idf[word] = math.log(1 + (self.corpus_size - frequency + 0.5) / (frequency + 0.5))


REFERENCES: dict[str, Any] = {
    "lucene": Lucene,
    "okapi": rank_bm25.BM25Okapi,
    "l": rank_bm25.BM25L,
    "plus": rank_bm25.BM25Plus,
}


def generated_words(count: int) -> list[str]:
    """Words whose frequencies follow Zipf's law, as those of natural text do about."""
    random.seed(7)
    vocabulary = ["".join(random.choices("etaoinshrdlucmf", k=random.randint(1, 10))) for _ in range(50_000)]
    weights = [1 / rank for rank in range(1, len(vocabulary) + 1)]
    return random.choices(vocabulary, weights, k=count)


def chunk_texts(folder: Path | None, count: int) -> list[str]:
    """Exactly so many chunks. A small folder is cut again and again, each time at other words."""
    if folder is None:
        words = generated_words(min(count, 20_000) * _WORDS_PER_CHUNK)
    else:
        texts = (path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.rglob("*.md")))
        words = [word for text in texts for word in text.split()]
    if len(words) < 2 * _WORDS_PER_CHUNK:
        raise SystemExit(f"{folder}: expected Markdown files with {2 * _WORDS_PER_CHUNK} words or more")
    return list(itertools.islice(_windows(words), count))


def _windows(words: Sequence[str]) -> Iterator[str]:
    random.seed(11)
    while True:
        for start in range(random.randrange(_WORDS_PER_CHUNK), len(words) - _WORDS_PER_CHUNK, _WORDS_PER_CHUNK):
            yield " ".join(words[start : start + _WORDS_PER_CHUNK])


def query_texts(texts: Sequence[str], count: int) -> list[str]:
    """Three to eight words that stand together in some chunk."""
    random.seed(13)
    queries = []
    for text in random.choices(texts, k=count):
        words = text.split()
        start = random.randrange(len(words) - 8)
        queries.append(" ".join(words[start : start + random.randint(3, 8)]))
    return queries


def batches(texts: Sequence[str]) -> Iterator[tuple[pa.Array, pa.Array]]:
    for start in range(0, len(texts), 2000):
        part = texts[start : start + 2000]
        yield pa.array([f"{start + number:08d}" for number in range(len(part))]), pa.array(part)


def term_lists(analyzer: Analyzer, texts: Sequence[str]) -> list[list[str]]:
    """What rank_bm25 is given; equal terms are one object, which spares its memory."""
    lists = []
    seen: dict[str, str] = {}
    for _, part in batches(texts):
        terms = analyzer.analyze(part)
        names = [seen.setdefault(term, term) for term in terms.values.dictionary.to_pylist()]
        numbers, offsets = terms.values.indices.to_pylist(), terms.offsets.to_pylist()
        for start, end in itertools.pairwise(offsets):
            lists.append([names[number] for number in numbers[start:end]])
    return lists


def median_cpu_ms(search: Callable[[list[str]], object], queries: Sequence[list[str]]) -> float:
    spent = []
    for query in queries:
        started = time.process_time_ns()
        search(query)
        spent.append((time.process_time_ns() - started) / 1e6)
    return statistics.median(spent)


def compare_scores(folder: Path, texts: Sequence[str], queries: Sequence[str], analyzer: Analyzer) -> None:
    segments = write_segments(folder, batches(texts), analyzer)
    lists = term_lists(analyzer, texts)
    print(f"(a) {len(texts):,} chunks, {len(queries)} queries: largest difference of a score")
    for variant, reference_class in REFERENCES.items():
        reference = reference_class(lists)
        index = open_bm25(folder, segments, LexicalConfig(language="english", variant=variant))  # type: ignore[arg-type]
        worst = 0.0
        for query in queries:
            terms = analyzer.terms(query)
            worst = max(worst, float(np.abs(index.get_scores(terms) - reference.get_scores(terms)).max()))
        print(f"    {variant:7} {worst:.1e}")


def compare_speed(folder: Path, texts: Sequence[str], queries: Sequence[str], analyzer: Analyzer) -> None:
    print(f"(b) {len(texts):,} chunks, {sum(map(len, texts)) / 1e6:.0f} MB of text, {len(queries)} queries")
    started = time.process_time()
    segments = write_segments(folder, batches(texts), analyzer)
    print(f"    build {time.process_time() - started:.2f} CPU s, {_megabytes(folder, segments):.1f} MB on disk")
    started = time.process_time()
    for segment in segments:
        verify_segment(folder, segment)
    print(f"    verify {time.process_time() - started:.3f} CPU s")
    started = time.process_time()
    index = open_bm25(folder, segments, LexicalConfig(language="english"))
    print(f"    open {time.process_time() - started:.4f} CPU s, {len(segments)} segments")
    analyzed = [analyzer.terms(query) for query in queries]
    cold = median_cpu_ms(lambda terms: index.top(terms, 10), analyzed)
    warm = median_cpu_ms(lambda terms: index.top(terms, 10), analyzed)
    started = time.process_time()
    for query in queries:
        analyzer.terms(query)
    analysis = (time.process_time() - started) / len(queries) * 1e3
    print(f"    search {warm:.3f} ms ({cold:.3f} ms the first time round), analysing a query {analysis:.3f} ms")
    started = time.process_time()
    reference = Lucene(term_lists(analyzer, texts))
    print(f"    rank_bm25: build {time.process_time() - started:.2f} CPU s, our analysis included")
    ordinals = range(len(texts))
    slow = median_cpu_ms(lambda terms: reference.get_top_n(terms, ordinals, 10), analyzed[:_REFERENCE_QUERIES])
    same = median_cpu_ms(lambda terms: index.top(terms, 10), analyzed[:_REFERENCE_QUERIES])
    print(
        f"    rank_bm25: search {slow:.1f} ms over {_REFERENCE_QUERIES} queries; ours {same:.3f} ms: {slow / same:.0f} times"
    )


def _megabytes(folder: Path, segments: Sequence[BM25Segment]) -> float:
    return sum((folder / segment.file).stat().st_size for segment in segments) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    arguments = parser.parse_args()
    texts = chunk_texts(arguments.folder, arguments.chunks)
    queries = query_texts(texts, arguments.queries)
    analyzer = Analyzer(LexicalConfig(language="english"))
    with tempfile.TemporaryDirectory() as folder:
        some = random.Random(3).sample(texts, min(_CHUNKS_COMPARED, len(texts)))
        compare_scores(Path(folder) / "a", some, query_texts(some, arguments.queries), analyzer)
        compare_speed(Path(folder) / "b", texts, queries, analyzer)


if __name__ == "__main__":
    main()
