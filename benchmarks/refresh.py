#!/usr/bin/env python3
"""What a refresh costs: `python benchmarks/refresh.py [FOLDER] [--chunks N] [--rounds N]`.

For the folder's files, and for a generated corpus of N chunks (100,000 by default; 0 leaves it out), prints CPU, wall,
peak memory and embedded texts of a full refresh, one with nothing changed, one with 1 % of the files edited, one with
0.5 % deleted, one after a folder was renamed, and the disk after N rounds of 1 % changes against a fresh build. Each
refresh runs in a process of its own, without Dagster; interpreter and imports are counted and shown apart.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

YAML = "source: {path: files}\nkeep_snapshots: 10\nsafety: {max_delete_fraction: 0.9, max_failed_fraction: 0.5}\n"

REFRESH = """
import json, resource, sys, time
from pathlib import Path
started, cpu = time.perf_counter(), time.process_time()
from rag_pipeline.corpus_files import load_corpus
from rag_pipeline.refresh import STAGES, RefreshContext
from rag_pipeline.lance import connect
connect(Path(sys.argv[2]))
imported = time.process_time()
for _ in range(int(sys.argv[3])):
    context = RefreshContext(load_corpus(Path(sys.argv[1])), Path(sys.argv[2]))
    reports = {stage: run(context) for stage, run in STAGES.items()}
print(json.dumps({
    "cpu": time.process_time() - imported, "start": imported - cpu, "wall": time.perf_counter() - started,
    "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    "embedded": reports["embeddings"].embedded, "chunks": reports["chunks"].total,
    "documents": reports["documents"].total}))
"""


def refresh(corpus: Path, data: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", REFRESH, str(corpus), str(data), "1"], capture_output=True, text=True, check=True
    )
    values: dict[str, float] = json.loads(done.stdout)
    return values


def show(name: str, values: dict[str, float], full: float) -> None:
    print(
        f"  {name:<16} {values['cpu']:7.2f} s CPU ({values['cpu'] / full:6.1%} of full; start-up {values['start']:.1f} s) "
        f"{values['wall']:7.1f} s wall {values['memory']:6.0f} MB {values['embedded']:8.0f} texts embedded"
    )


def generate(files: Path, chunks: int) -> None:
    """Pages of ten sections, each a chunk of about 100 words that no other page has."""
    chance = random.Random(7)
    words = ["".join(chance.choices("etaoinshrdlucm", k=chance.randint(2, 9))) for _ in range(20_000)]
    for page in range(chunks // 10):
        sections = [f"## Section {n}\n\n" + " ".join(chance.choices(words, k=100)) for n in range(10)]
        path = files / f"part{page % 20:02d}" / f"page{page:06d}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Page {page}\n\n" + "\n\n".join(sections) + "\n", encoding="utf-8")


def edit(path: Path, round_number: int) -> None:
    """Change one sentence in the middle of a file, as a person does."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    lines.insert(len(lines) // 2, f"Edited in round {round_number} with {path.name}.")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(name: str, corpus: Path, data: Path, rounds: int) -> None:
    chance = random.Random(11)
    files = sorted(path for path in (corpus / "files").rglob("*") if path.suffix in (".md", ".txt"))
    full = refresh(corpus, data)
    print(f"{name}: {full['documents']:.0f} documents, {full['chunks']:.0f} chunks")
    show("full", full, full["cpu"])
    show("nothing changed", refresh(corpus, data), full["cpu"])
    for path in chance.sample(files, max(1, len(files) // 100)):
        edit(path, 0)
    show("1 % edited", refresh(corpus, data), full["cpu"])
    for path in chance.sample(files, max(1, len(files) // 200)):
        path.unlink()
    show("0.5 % deleted", refresh(corpus, data), full["cpu"])
    folders = [path for path in (corpus / "files").iterdir() if path.is_dir()]
    largest = max(folders, key=lambda path: len(list(path.rglob("*"))))
    largest.rename(largest.with_name("renamed-" + largest.name))
    show("folder renamed", refresh(corpus, data), full["cpu"])
    if not rounds:
        return
    started = resource.getrusage(resource.RUSAGE_CHILDREN)
    files = sorted(path for path in (corpus / "files").rglob("*") if path.suffix in (".md", ".txt"))
    began = time.perf_counter()
    for number in range(1, rounds + 1):
        for path in chance.sample(files, max(1, len(files) // 100)):
            edit(path, number)
        refresh(corpus, data)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = ended.ru_utime + ended.ru_stime - started.ru_utime - started.ru_stime
    fresh = data.parent / "fresh"
    refresh(corpus, fresh)
    store, cache = size(data / corpus.name), size(data / "embeddings")
    fresh_store, fresh_cache = size(fresh / corpus.name), size(fresh / "embeddings")
    wall = (time.perf_counter() - began) / rounds
    print(
        f"  {rounds} rounds of 1 %: {cpu / rounds:.1f} s CPU and {wall:.1f} s wall each, start-up included; "
        f"store {store / 1e6:.0f} MB = {store / fresh_store:.2f} x a fresh build; "
        f"cache {cache / 1e6:.0f} MB = {cache / fresh_cache:.2f} x"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        for name in ("given", "generated"):
            corpus, data = Path(root) / name / "corpora" / "bench", Path(root) / name / "data"
            (corpus / "files").mkdir(parents=True)
            (corpus / "corpus.yaml").write_text(YAML)
            if name == "given":
                if arguments.folder is None:
                    continue
                shutil.copytree(arguments.folder, corpus / "files", dirs_exist_ok=True, copy_function=shutil.copyfile)
            elif arguments.chunks:
                generate(corpus / "files", arguments.chunks)
            else:
                continue
            # Files that were written just now are read again by the next refresh: their time stamps may repeat.
            time.sleep(2.1)
            measure(name, corpus, data, arguments.rounds)
            shutil.rmtree(Path(root) / name)


if __name__ == "__main__":
    main()
