"""`rag-pipeline refresh` on a real terminal, and into a pipe."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from rag_pipeline_tests.conftest import Workspace

YAML = "source: {path: files}\nembedding: {provider: hash}\n"
COMMAND = [str(Path(sys.executable).with_name("rag-pipeline")), "refresh", "docs"]


@pytest.fixture
def docs(workspace: Workspace) -> Workspace:
    workspace.corpus(yaml=YAML, files={f"page {number}.md": f"# Page {number}\n\nWords.\n" for number in range(40)})
    return workspace


def test_a_terminal_gets_bars_that_go_and_lines_that_stay(docs: Workspace) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        COMMAND, env={**docs.environment, "TERM": "xterm", "COLUMNS": "160"}, stderr=theirs, stdout=subprocess.DEVNULL
    )
    os.close(theirs)
    drawn = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other side was closed: Linux says so in this way
            break
        if not part:
            break
        drawn += part
    os.close(ours)
    assert process.wait(60) == 0
    text = drawn.decode("utf-8", "replace")
    assert "docs/documents: 40 documents, 40 added, 0 changed, 0 removed, 0 failed" in text
    assert "docs/snapshot: snapshot 1 is served" in text
    assert "\x1b[?25l" in text, "the bars hide the cursor while they are drawn"
    assert "\x1b[?25h" in text, "and show it again"


def test_a_pipe_gets_no_word_of_a_quick_refresh(docs: Workspace) -> None:
    done = subprocess.run(COMMAND, env=docs.environment, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""
    assert done.stdout.startswith("docs: snapshot 1 published: 40 documents")
