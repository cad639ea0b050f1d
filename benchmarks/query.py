#!/usr/bin/env python3
"""Search latency on an opened index: `python benchmarks/query.py [FOLDER] [--chunks N] [--queries N]`.

Refreshes a corpus of the folder's Markdown (or of generated pages) into a temporary store, cut at about N chunks, opens it,
and prints the median and 95th percentile of each mode, embedding of the query included.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from pathlib import Path

from rag_pipeline.corpus_files import load_corpus
from rag_pipeline.query import Index
from rag_pipeline.refresh import STAGES, RefreshContext

_BYTES_PER_CHUNK = 1400
"""About how much Markdown makes a chunk of the default size; only steers how many files are taken."""


def pages(folder: Path | None, chunks: int) -> list[str]:
    """Texts that make about so many chunks."""
    if folder is None:
        random.seed(7)
        words = ["".join(random.choices("etaoinshrdlu", k=random.randint(2, 9))) for _ in range(5000)]
        return [
            f"# Page {number}\n\n" + "\n\n".join(" ".join(random.choices(words, k=220)) for _ in range(10))
            for number in range(chunks // 10)
        ]
    texts: list[str] = []
    size = 0
    for path in sorted(folder.rglob("*.md")):
        if size > chunks * _BYTES_PER_CHUNK:
            break
        texts.append(path.read_text(encoding="utf-8", errors="replace"))
        size += path.stat().st_size
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=300)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "corpora" / "bench"
        (folder / "files").mkdir(parents=True)
        texts = pages(arguments.folder, arguments.chunks)
        for number, text in enumerate(texts):
            (folder / "files" / f"{number:06d}.md").write_text(text, encoding="utf-8")
        (folder / "corpus.yaml").write_text("source: {path: files}\nsafety: {max_failed_fraction: 0.5}\n")
        context = RefreshContext(load_corpus(folder), Path(root) / "data")
        for run in STAGES.values():
            run(context)
        started = time.process_time()
        index = Index.open("bench", data=Path(root) / "data")
        opened = time.process_time() - started
        print(f"{index.manifest.counts.chunks} chunks of {len(texts)} pages, opened in {opened:.2f} s of CPU")
        random.seed(11)
        words = [random.choice(texts).split() for _ in range(arguments.queries)]
        queries = [
            " ".join(text[at : at + 7]) for text in words if len(text) > 8 for at in [random.randrange(len(text) - 7)]
        ]
        for mode in ("hybrid", "vector", "bm25"):
            index.search("warm up", mode=mode)
            times = []
            for query in queries:
                began = time.perf_counter()
                index.search(query, k=10, mode=mode)
                times.append((time.perf_counter() - began) * 1000)
            times.sort()
            print(f"{mode:<7} median {statistics.median(times):6.2f} ms   p95 {times[int(len(times) * 0.95)]:6.2f} ms")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
