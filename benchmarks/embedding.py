#!/usr/bin/env python3
"""Embedding, and what is around it: `python benchmarks/embedding.py FOLDER [--size N]`, on a folder of Markdown.

1. Static embeddings against wordllama's own, on every chunk below its context line: CPU seconds and how well the vectors
   agree. Ours are counted from an empty table of pieces.
2. The `embeddings` stage with the static model: what reading texts and storing vectors add to the time in the model. Both
   go on beside the model, so that this needs a second core that is free.
3. The stage with a hosted model whose server takes 200 ms for an answer: how much of the time all places at the server
   are taken.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from chunking import documents  # the benchmark beside this one

from rag_pipeline.chunking import chunk_document
from rag_pipeline.config import ChunkingConfig
from rag_pipeline.corpus_files import load_corpus
from rag_pipeline.embedding import static
from rag_pipeline.embedding.capitals import lower_capital_lines
from rag_pipeline.refresh import RefreshContext, refresh_chunks, refresh_documents, refresh_embeddings

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from rag_pipeline_tests.provider_server import ProviderServer


def against_wordllama(texts: list[str]) -> None:
    import wordllama

    theirs = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    # A tokenizer of its own, so that its pieces are counted from none.
    static.load_tokenizer.cache_clear()
    ours = static.load()
    started = time.process_time()
    our_vectors = ours.embed_documents(texts)
    our_seconds = time.process_time() - started
    started = time.process_time()
    their_vectors = theirs.embed(texts, norm=True)
    their_seconds = time.process_time() - started
    lowered = theirs.embed(lower_capital_lines(texts), norm=True)
    print(f"ours      {our_seconds:8.2f} CPU s")
    print(f"wordllama {their_seconds:8.2f} CPU s, {their_seconds / our_seconds:.1f} times ours")
    for name, vectors in (("as written", their_vectors), ("lines in capitals lowered for both", lowered)):
        cosines = np.nan_to_num((our_vectors.astype(np.float64) * vectors).sum(axis=1), nan=1.0)
        print(f"cosine, {name}: least {cosines.min():.6f}, mean {cosines.mean():.6f}")


def stage_around_model(folder: Path, rounds: int = 5) -> None:
    """The stage's time over the time that it spends inside the model: the least of several rounds."""
    inside = np.zeros(2)

    def timed(texts: Sequence[str]) -> tuple[npt.NDArray[np.float32], int]:
        nonlocal inside
        started = np.array([time.perf_counter(), time.thread_time()])
        try:
            return embed(texts)
        finally:
            inside = inside + np.array([time.perf_counter(), time.thread_time()]) - started

    with tempfile.TemporaryDirectory() as temporary:
        context = chunked(Path(temporary), folder, "{provider: static}")
        model = context.embedder
        assert isinstance(model, static.StaticEmbedder)
        embed = model.embed_and_count
        model.embed_and_count = timed  # type: ignore[method-assign]
        measured = []
        for _ in range(rounds):
            shutil.rmtree(context.store.embeddings, ignore_errors=True)
            inside, started = np.zeros(2), np.array([time.perf_counter(), time.process_time()])
            report = refresh_embeddings(RefreshContext(context.corpus, context.data_root))
            measured.append((np.array([time.perf_counter(), time.process_time()]) - started, inside))
        model.embed_and_count = embed  # type: ignore[method-assign]
    for place, unit in enumerate(("s", "CPU s")):
        whole, own = min(((of[place], inside[place]) for of, inside in measured), key=lambda times: times[0] / times[1])
        print(
            f"embeddings stage, static: {report.embedded} texts, {whole:.2f} {unit}, of it {own:.2f} in the model: "
            f"{whole / own - 1:+.1%}"
        )


def busy_server(folder: Path, delay: float = 0.2, concurrency: int = 8, batch: int = 16) -> None:
    os.environ["OPENAI_API_KEY"] = "sk-benchmark"
    with ProviderServer(dimensions=16, delay=delay) as server, tempfile.TemporaryDirectory() as temporary:
        context = chunked(
            Path(temporary),
            folder,
            f"{{provider: openai, model: stub, dimensions: 16, api_base: '{server.api_base}', concurrency: {concurrency}, "
            f"batch_size: {batch}}}",
        )
        report = refresh_embeddings(context)
        requests = [request for request in server.requests if request.answered is not None]
    # From the first request on: importing LiteLLM takes seconds, once a process.
    wall = max(request.answered or 0 for request in requests) - min(request.arrived for request in requests)
    taken = sum((request.answered or 0) - request.arrived for request in requests)
    print(
        f"embeddings stage, hosted: {report.embedded} texts in {len(requests)} requests of {delay:g} s, "
        f"{concurrency} at once: {wall:.1f} s, {taken / (wall * concurrency):.0%} of the places taken "
        f"(at most {server.most_at_once} at once)"
    )


def chunked(root: Path, folder: Path, embedding: str) -> RefreshContext:
    """A corpus of the folder, up to its chunks."""
    corpus = root / "corpora" / "measured"
    corpus.mkdir(parents=True)
    (corpus / "corpus.yaml").write_text(
        f"source: {{path: {folder.resolve()}, include: ['**/*.md']}}\nembedding: {embedding}\n"
        "safety: {max_failed_fraction: 0.5}\n",
        encoding="utf-8",
    )
    context = RefreshContext(load_corpus(corpus), root / "data")
    refresh_documents(context)
    refresh_chunks(context)
    return context


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--size", type=int, default=ChunkingConfig().size, help="tokens a chunk")
    arguments = parser.parse_args()
    if arguments.folder is None or not arguments.folder.is_dir():
        print("embedding benchmark skipped: name a folder of Markdown files")
        return
    config = ChunkingConfig(size=arguments.size, overlap=min(64, arguments.size // 4))
    tokenizer = static.load_tokenizer()
    parsed = documents(arguments.folder)
    texts = [chunk.indexed_text for document in parsed for chunk in chunk_document(document, config, tokenizer)]
    if not texts:
        print(f"embedding benchmark skipped: no Markdown under {arguments.folder}")
        return
    print(f"{len(texts)} chunks, {sum(map(len, texts)) / 1e6:.1f} million characters")
    against_wordllama(texts)
    stage_around_model(arguments.folder)
    busy_server(arguments.folder)


if __name__ == "__main__":
    main()
