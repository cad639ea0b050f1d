"""kill -9 while a provider is being asked: what it had answered and what was stored is never asked for again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from rag_pipeline.hashing import text_hash
from rag_pipeline.index.snapshot import read_manifest
from rag_pipeline.lance import connect, open_table, read
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.provider_server import ProviderProcess, provider_process

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("refresh_in_children.py")
TRIALS = 20
BATCH, CONCURRENCY = 8, 4
WORKERS = CONCURRENCY + CONCURRENCY // 2
TEXTS = 240


class Children:
    """The process that starts refreshes, and its pipes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._into: IO[str] = process.stdin
        self._out: IO[str] = process.stdout

    def start(self, folder: Path, data: Path) -> int:
        self._into.write(f"{folder}\t{data}\n")
        self._into.flush()
        return int(self._out.readline())

    def exit_code(self) -> int:
        return int(self._out.readline())


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    environment = {**os.environ, "OPENAI_API_KEY": "sk-test-0123456789abcdef"}
    command = [sys.executable, str(SCRIPT)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield Children(process)
        finally:
            process.kill()


def stored_hashes(data: Path) -> set[str]:
    folder = data / "embeddings"
    names = [path.stem for path in folder.glob("openai_*.lance")]
    if not names:
        return set()
    table = open_table(connect(folder), names[0])
    return set(read(table, ["content_hash"])["content_hash"].to_pylist()) if table is not None else set()


def answered(server: ProviderProcess) -> Counter[str]:
    return Counter(server.statistics()["answered_texts"])


def wait_for_answers(server: ProviderProcess, count: int) -> None:
    deadline = time.monotonic() + 60
    while sum(answered(server).values()) < count and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.parametrize("seed", range(TRIALS))
def test_a_killed_refresh_pays_again_for_what_was_under_way_only(
    workspace: Workspace, children: Children, seed: int
) -> None:
    chance = random.Random(seed)
    files = {f"{n}.md": f"# Page {n}\n\nThis is page number {n}, {chance.random()}.\n" for n in range(TEXTS)}
    with provider_process(dimensions=16, delay=0.03) as server:
        folder = workspace.corpus(
            yaml="source: {path: files}\nembedding: {provider: openai, model: stub, dimensions: 16, "
            f"batch_size: {BATCH}, concurrency: {CONCURRENCY}, api_base: '{server.api_base}'}}\n",
            files=files,
        )
        child = children.start(folder, workspace.data)
        wait_for_answers(server, chance.randrange(1, TEXTS))
        time.sleep(chance.random() * 0.05)
        os.kill(child, signal.SIGKILL)
        assert children.exit_code() in (-signal.SIGKILL, 0)
        time.sleep(0.1)
        stored, before = stored_hashes(workspace.data), answered(server)
        children.start(folder, workspace.data)
        assert children.exit_code() == 0
        after = answered(server)
    assert len(after) == TEXTS
    again = [text for text in before if after[text] > before[text]]
    assert not [text for text in again if text_hash(text) in stored]
    assert len(again) <= WORKERS * BATCH
    assert read_manifest(workspace.context().store).counts.chunks == TEXTS
