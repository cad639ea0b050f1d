#!/usr/bin/env python3
"""What a bucket costs beside a disk: `python benchmarks/object_store.py [--objects N]`.

Starts SeaweedFS (extra `stores-test`), puts N small pages (10,000 by default) into a bucket and into a folder, and prints
CPU and wall of listing them, of reading them all, and of refreshes: full, nothing changed, 1 % edited. Each in a process
of its own without the start of Python, data root on the disk and in the bucket. The server's own CPU is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from rag_pipeline_tests.storage.seaweed import SeaweedFS

BUCKET = "benchmark"

LIST = """
import json, sys, time
from pathlib import Path
from rag_pipeline.corpus_files import load_corpus
from rag_pipeline.sources import ItemReader, list_items
corpus = load_corpus(Path(sys.argv[1]))
with ItemReader(corpus): pass
cpu, wall = time.process_time(), time.perf_counter()
items = list_items(corpus)
listed = time.process_time() - cpu, time.perf_counter() - wall
cpu, wall = time.process_time(), time.perf_counter()
with ItemReader(corpus, items) as reader:
    size = sum(len(reader.read(item).data) for item in items)
read = time.process_time() - cpu, time.perf_counter() - wall
print(json.dumps({"list": listed, "read": read, "items": len(items), "bytes": size}))
"""

REFRESH = """
import json, sys, time
from pathlib import Path
from rag_pipeline.config import data_root
from rag_pipeline.corpus_files import load_corpus
from rag_pipeline.refresh import STAGES, RefreshContext
from rag_pipeline.lance import connect
from rag_pipeline.sources import ItemReader
corpus, root = load_corpus(Path(sys.argv[1])), data_root(sys.argv[2])
connect(root)
with ItemReader(corpus): pass
times, wall = {}, time.perf_counter()
context = RefreshContext(corpus, root)
for stage, run in STAGES.items():
    cpu = time.process_time()
    report = run(context)
    times[stage] = time.process_time() - cpu
print(json.dumps({"cpu": sum(times.values()), "documents": times["documents"], "wall": time.perf_counter() - wall,
    "hash": report.hash}))
"""


def run(code: str, *arguments: object) -> dict[str, object]:
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    values: dict[str, object] = json.loads(done.stdout)
    return values


def page(number: int, words: list[str], chance: random.Random) -> bytes:
    return f"# Page {number}\n\n{' '.join(chance.choices(words, k=120))}\n".encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        server = SeaweedFS(root / "server")
        server.start(BUCKET)
        try:
            measure(root, server, arguments.objects)
        finally:
            server.kill()


def measure(root: Path, server: SeaweedFS, objects: int) -> None:
    os.environ.update({**server.environment, "RAG_PIPELINE_CACHE": str(root / "cache")})
    chance = random.Random(7)
    words = ["".join(chance.choices("etaoinshrdlucm", k=chance.randint(2, 9))) for _ in range(20_000)]
    bucket = server.store(BUCKET, "source")
    disk = root / "corpora" / "disk" / "files"
    names = [f"part{number % 20:02d}/page{number:05d}.md" for number in range(objects)]
    for number, name in enumerate(names):
        write(disk / name, bucket, name, page(number, words, chance))
    yaml = "source: {{path: '{}'}}\nembedding: {{provider: hash}}\n"
    bench = root / "corpora" / "bucket"
    bench.mkdir(parents=True)
    (disk.parent / "corpus.yaml").write_text(yaml.format("files"))
    (bench / "corpus.yaml").write_text(yaml.format(f"s3://{BUCKET}/source"))
    # Files that were written just now are read again by the next refresh: their time stamps may repeat.
    for name in names:
        os.utime(disk / name, (1_700_000_000, 1_700_000_000))

    on_disk, in_bucket = run(LIST, disk.parent), run(LIST, bench)
    for what in ("list", "read"):
        show(f"{what} {objects} items", on_disk[what], in_bucket[what])
    places = {
        "disk, data on the disk": (disk.parent, root / "data-disk"),
        "bucket, data on the disk": (bench, root / "data"),
    }
    places["bucket, data in the bucket"] = (bench, f"s3://{BUCKET}/data")  # type: ignore[assignment]
    hashes: dict[str, set[object]] = {}
    for what in ("full", "nothing changed", "1 % edited"):
        if what == "1 % edited":
            for name in names[:: max(1, objects // (objects // 100 or 1))]:
                write(disk / name, bucket, name, b"# Edited\n\n" + (disk / name).read_bytes())
        for place, (corpus, data) in places.items():
            values = run(REFRESH, corpus, data)
            hashes.setdefault(what, set()).add(values["hash"])
            print(
                f"{what:<16} {place:<28} {values['cpu']:7.2f} s CPU (documents {values['documents']:6.2f}) "
                f"{values['wall']:7.1f} s wall"
            )
    print("manifest hashes agree" if all(len(found) == 1 for found in hashes.values()) else "MANIFEST HASHES DIFFER")


def write(file: Path, bucket: object, name: str, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    bucket.put(name, data)  # type: ignore[attr-defined]


def show(what: str, disk: object, bucket: object) -> None:
    (disk_cpu, disk_wall), (bucket_cpu, bucket_wall) = disk, bucket  # type: ignore[misc]
    print(
        f"{what}: disk {disk_cpu:.2f} s CPU, {disk_wall:.2f} s wall; bucket {bucket_cpu:.2f} s CPU, {bucket_wall:.2f} s wall"
    )


if __name__ == "__main__":
    main()
