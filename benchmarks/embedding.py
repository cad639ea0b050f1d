#!/usr/bin/env python3
"""Static embeddings against wordllama's own: `python benchmarks/embedding.py [FOLDER]`.

Chunks the folder's Markdown, embeds every chunk below its context line with both, and prints CPU seconds and how well
the vectors agree. Ours are counted from an empty table of pieces.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from chunking import documents  # the benchmark beside this one

from rag_pipeline.chunking import chunk_document
from rag_pipeline.config import ChunkingConfig
from rag_pipeline.embedding import static
from rag_pipeline.embedding.capitals import lower_capital_lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--size", type=int, default=ChunkingConfig().size, help="tokens a chunk")
    arguments = parser.parse_args()
    if arguments.folder is None or not arguments.folder.is_dir():
        print("embedding benchmark skipped: name a folder of Markdown files")
        return
    import wordllama

    theirs = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    config = ChunkingConfig(size=arguments.size, overlap=min(64, arguments.size // 4))
    tokenizer = static.load().tokenizer
    parsed = documents(arguments.folder)
    texts = [chunk.indexed_text for document in parsed for chunk in chunk_document(document, config, tokenizer)]
    if not texts:
        print(f"embedding benchmark skipped: no Markdown under {arguments.folder}")
        return
    ours = static.load()

    started = time.process_time()
    our_vectors = ours.embed_documents(texts)
    our_seconds = time.process_time() - started
    started = time.process_time()
    their_vectors = theirs.embed(texts, norm=True)
    their_seconds = time.process_time() - started
    lowered = theirs.embed(lower_capital_lines(texts), norm=True)

    print(f"{len(texts)} chunks, {sum(map(len, texts)) / 1e6:.1f} million characters")
    print(f"ours      {our_seconds:8.2f} CPU s")
    print(f"wordllama {their_seconds:8.2f} CPU s, {their_seconds / our_seconds:.1f} times ours")
    for name, vectors in (("as written", their_vectors), ("lines in capitals lowered for both", lowered)):
        cosines = np.nan_to_num((our_vectors.astype(np.float64) * vectors).sum(axis=1), nan=1.0)
        print(f"cosine, {name}: least {cosines.min():.6f}, mean {cosines.mean():.6f}")


if __name__ == "__main__":
    main()
