#!/usr/bin/env python3
"""How fast documents are cut: `python benchmarks/chunking.py [FOLDER] [--megabytes N]`.

Parses the folder's Markdown, cuts it with the static model's tokenizer from an empty table of pieces, and prints CPU
seconds of both and the sizes of the chunks.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from rag_pipeline.chunking import chunk_document
from rag_pipeline.config import ChunkingConfig
from rag_pipeline.contracts import Parsed
from rag_pipeline.embedding import static
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing import parse


def documents(folder: Path, megabytes: float | None = None) -> list[Parsed]:
    """The Markdown files of a folder, up to so many megabytes of them."""
    parsed: list[Parsed] = []
    room = float("inf") if megabytes is None else megabytes * 1e6
    for file in sorted(folder.rglob("*.md")):
        data = file.read_bytes()
        if len(data) > room:
            break
        room -= len(data)
        try:
            parsed.append(parse(data, str(file.relative_to(folder))))
        except ParseError as error:
            print(f"{file}: {error}")
    return parsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--megabytes", type=float, help="stop before more than these are read")
    parser.add_argument("--size", type=int, default=ChunkingConfig().size, help="tokens a chunk")
    parser.add_argument("--overlap", type=int, default=ChunkingConfig().overlap, help="tokens that chunks share")
    arguments = parser.parse_args()
    if arguments.folder is None or not arguments.folder.is_dir():
        print("chunking benchmark skipped: name a folder of Markdown files")
        return
    config = ChunkingConfig(size=arguments.size, overlap=arguments.overlap)
    tokenizer = static.load().tokenizer

    started = time.process_time()
    parsed = documents(arguments.folder, arguments.megabytes)
    parsing_seconds = time.process_time() - started
    characters = sum(len(document.text) for document in parsed)
    started = time.process_time()
    chunks = [chunk for document in parsed for chunk in chunk_document(document, config, tokenizer)]
    seconds = time.process_time() - started

    print(f"{len(parsed)} documents, {characters / 1e6:.2f} million characters, parsed in {parsing_seconds:.2f} CPU s")
    print(f"{len(chunks)} chunks in {seconds:.2f} CPU s, {characters / 1e6 / seconds:.2f} million characters a second")
    if chunks:
        tokens = tokenizer.count([chunk.text for chunk in chunks])
        low, middle, high = np.percentile(tokens, [5, 50, 95])
        print(
            "tokens a chunk: "
            f"mean {tokens.mean():.0f}, 5% {low:.0f}, median {middle:.0f}, 95% {high:.0f}, most {tokens.max()}"
        )


if __name__ == "__main__":
    main()
