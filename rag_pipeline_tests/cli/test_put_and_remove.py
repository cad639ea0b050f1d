"""`rag-pipeline put` and `remove`: a document goes in and out, and the next refresh finds nothing left to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from rag_pipeline_tests.conftest import Workspace

COMMAND = [sys.executable, "-c", "import sys; from rag_pipeline.cli import main; sys.exit(main())"]


def run(workspace: Workspace, *arguments: str, code: int = 0, data: bytes = b"") -> Any:
    done = subprocess.run([*COMMAND, *arguments, "--json"], env=workspace.environment, input=data, capture_output=True)
    assert done.returncode == code, done.stderr.decode()
    return json.loads(done.stdout) if not code else done.stderr.decode()


def test_a_document_goes_in_and_out_with_one_refresh_each(workspace: Workspace) -> None:
    workspace.corpus(yaml="source: {path: files}\nembedding: {provider: hash}\n", files={"a.md": "# A\n\nApples.\n"})
    run(workspace, "refresh", "docs")
    put = run(workspace, "put", "docs", "b.md", "-", "--refresh", data=b"# Bread\n\nFlour and water.\n")
    assert (put["path"], put["size"], put["action"]) == ("b.md", 26, "put")
    assert (put["refresh"]["status"], put["refresh"]["documents"]["added"]) == ("published", 1)
    past = (workspace.corpora / "docs/files/b.md").stat().st_mtime - 60
    os.utime(workspace.corpora / "docs/files/b.md", (past, past))
    (after,) = run(workspace, "refresh", "docs")
    assert (after["status"], after["snapshot"], after["embedded"]) == ("unchanged", 2, 0)
    removed = run(workspace, "remove", "docs", "b.md", "--refresh")
    assert removed["refresh"]["documents"]["removed"] == 1, "half of the documents, but on purpose"
    assert not (workspace.corpora / "docs/files/b.md").exists()
    (after,) = run(workspace, "refresh", "docs")
    assert (after["status"], after["snapshot"]) == ("unchanged", 3)


def test_faults_are_one_line_and_write_nothing(workspace: Workspace) -> None:
    workspace.corpus(files={"a.md": "# A\n"})
    assert "expected a path within the source" in run(workspace, "put", "docs", "../x.md", "-", code=2)
    assert "cannot be read" in run(workspace, "put", "docs", "b.md", str(workspace.root / "nothing"), code=2)
    assert "there is no item 'b.md'" in run(workspace, "remove", "docs", "b.md", code=1)
    assert [file.name for file in (workspace.corpora / "docs/files").iterdir()] == ["a.md"]
