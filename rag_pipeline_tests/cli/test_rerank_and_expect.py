"""`search --rerank`, and `explain` with a reranker and with `--expect`, as people and machines see them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline_tests.conftest import Workspace

PAGES: dict[str, str | bytes] = {
    "ops/rollback.md": "# Rollback\n\nMove the pointer back to an older snapshot.\n",
    "ops/schedule.md": "# Schedules\n\nA cron line in corpus.yaml says when.\n",
    "flags.md": "# Flags\n\nUse --where to filter hits.\n",
    **{f"filler/{n}.md": f"# Filler {n}\n\nOlder filler of topic {n}.\n" for n in range(12)},
}
FAILING = (
    "source: {path: files}\n"
    "retrieval: {rerank: litellm, rerank_model: jina_ai/any, rerank_on_failure: fused, "
    "rerank_api_base: 'http://127.0.0.1:9/v1'}\n"
)


def run(workspace: Workspace, *arguments: str, check: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in workspace.environment.items() if not name.startswith("JINA")}
    command = [str(Path(sys.executable).with_name("rag-pipeline")), *arguments]
    done = subprocess.run(
        command, env={**kept, **environment}, cwd=workspace.root, text=True, capture_output=True, check=False
    )
    assert done.returncode == check, done.stderr
    return done


def run_json(workspace: Workspace, *arguments: str) -> Any:
    return json.loads(run(workspace, *arguments, "--json").stdout)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    made = Workspace(tmp_path_factory.mktemp("cli"))
    made.corpus(files=PAGES)
    made.refresh()
    made.corpus("failing", yaml=FAILING, files=PAGES)
    made.refresh("failing")
    return made


def test_a_search_takes_a_reranker_by_name(workspace: Workspace) -> None:
    found = run_json(workspace, "search", "docs", "older snapshot", "--rerank", "late-interaction", "-k", "3")
    assert found["hits"][0]["source"] == "ops/rollback.md"
    assert len(found["hits"]) == 3


def test_an_unknown_reranker_is_bad_usage_in_one_line(workspace: Workspace) -> None:
    done = run(workspace, "search", "docs", "older", "--rerank", "magic", check=2)
    assert done.stderr.startswith(
        "rag-pipeline: rerank: expected one of none, cross-encoder, late-interaction, litellm, llm"
    )
    assert done.stderr.count("\n") == 1


def test_explain_tells_score_and_former_rank_to_people_and_machines(workspace: Workspace) -> None:
    arguments = ("explain", "docs", "older snapshot", "--rerank", "late-interaction")
    shown = run(workspace, *arguments).stdout
    assert "rerank  late-interaction/static: score " in shown
    assert "weight 0.3" in shown
    assert "fused   " in shown
    first = run_json(workspace, *arguments)["hits"][0]
    assert first["rerank"].keys() == {"reranker", "score", "weight", "rank_before", "failure"}
    assert first["fused_score"] == pytest.approx(first["vector"]["contribution"] + first["bm25"]["contribution"])


def test_a_reranker_that_may_fail_warns_on_stderr_and_in_explain(workspace: Workspace) -> None:
    done = run(workspace, "search", "failing", "older snapshot", "--json")
    (warning,) = done.stderr.splitlines()
    assert warning.startswith("rag-pipeline: warning: reranker litellm failed, the hits stand in fused order: ")
    assert "JINA_AI_API_KEY" in warning
    fused = run_json(workspace, "search", "failing", "older snapshot", "--rerank", "none")
    assert json.loads(done.stdout)["hits"] == fused["hits"]
    explained = run(workspace, "explain", "failing", "older snapshot", "-k", "1")
    assert "rerank  litellm failed, fused order: " in explained.stdout


def test_a_document_that_is_not_among_the_hits_is_explained(workspace: Workspace) -> None:
    shown = run(workspace, "explain", "docs", "older snapshot topic", "--expect", "ops/schedule.md").stdout
    assert "ops/schedule.md: " in shown
    assert "bm25     not among" in shown
    assert "older: in none of its chunks, in 13 of the corpus" in shown
    value = run_json(workspace, "explain", "docs", "older snapshot", "--expect", "ops/rollback.md")["expected"]
    assert (value["verdict"], value["fused"]["rank"], value["terms_lacking"]) == ("ranked", 1, [])


def test_a_filter_and_an_unknown_id_are_told(workspace: Workspace) -> None:
    arguments = ("explain", "docs", "older snapshot", "--expect")
    filtered = run(workspace, *arguments, "ops/rollback.md", "--where", "path LIKE 'filler/%'").stdout
    assert "ops/rollback.md: the condition holds for none of its 1 chunks" in filtered
    unknown = run(workspace, *arguments, "rollback.md").stdout
    assert "rollback.md: the snapshot has no document of this id; like it: ops/rollback.md" in unknown
