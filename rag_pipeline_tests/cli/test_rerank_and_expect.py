"""`search --rerank`, and `explain` with a reranker and with `--expect`, as people and machines see them."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Protocol

import pytest

from rag_pipeline.cli import main
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


class Done(NamedTuple):
    stdout: str
    stderr: str


class Command(Protocol):
    def __call__(self, *arguments: str, check: int = 0) -> Done: ...


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    made = Workspace(tmp_path_factory.mktemp("cli"))
    made.corpus(files=PAGES)
    made.refresh()
    made.corpus("failing", yaml=FAILING, files=PAGES)
    made.refresh("failing")
    return made


@pytest.fixture
def run(workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """Runs the command in this process, on the workspace."""
    for name in ("RAG_PIPELINE_CORPORA", "RAG_PIPELINE_DATA"):
        monkeypatch.setenv(name, workspace.environment[name])
    for name in ("JINA_AI_API_KEY", "JINA_API_KEY", "JINA_AI_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    def command(*arguments: str, check: int = 0) -> Done:
        assert main(arguments) == check
        return Done(*capfd.readouterr())

    return command


def in_json(done: Done) -> Any:
    return json.loads(done.stdout)


def test_a_search_takes_a_reranker_by_name(run: Command) -> None:
    found = in_json(run("search", "docs", "older snapshot", "--rerank", "late-interaction", "-k", "3", "--json"))
    assert found["hits"][0]["source"] == "ops/rollback.md"
    assert len(found["hits"]) == 3


def test_an_unknown_reranker_is_bad_usage_in_one_line(run: Command) -> None:
    done = run("search", "docs", "older", "--rerank", "magic", check=2)
    assert done.stderr.startswith(
        "rag-pipeline: rerank: expected one of none, cross-encoder, late-interaction, litellm, llm"
    )
    assert done.stderr.count("\n") == 1


def test_explain_tells_score_and_former_rank_to_people_and_machines(run: Command) -> None:
    arguments = ("explain", "docs", "older snapshot", "--rerank", "late-interaction")
    shown = run(*arguments).stdout
    assert "rerank  late-interaction/static: score " in shown
    assert "weight 0.3" in shown
    assert "fused   " in shown
    first = in_json(run(*arguments, "--json"))["hits"][0]
    assert first["rerank"].keys() == {"reranker", "score", "weight", "rank_before", "failure"}
    assert first["fused_score"] == pytest.approx(first["vector"]["contribution"] + first["bm25"]["contribution"])


def test_a_reranker_that_may_fail_warns_on_stderr_and_in_explain(run: Command) -> None:
    done = run("search", "failing", "older snapshot", "--json")
    (warning,) = done.stderr.splitlines()
    assert warning.startswith("rag-pipeline: warning: reranker litellm failed, the hits stand in fused order: ")
    assert "JINA_AI_API_KEY" in warning
    fused = in_json(run("search", "failing", "older snapshot", "--rerank", "none", "--json"))
    assert json.loads(done.stdout)["hits"] == fused["hits"]
    explained = run("explain", "failing", "older snapshot", "-k", "1")
    assert "rerank  litellm failed, fused order: " in explained.stdout


def test_a_document_that_is_not_among_the_hits_is_explained(run: Command) -> None:
    shown = run("explain", "docs", "older snapshot topic", "--expect", "ops/schedule.md").stdout
    assert "ops/schedule.md: " in shown
    assert "bm25     not among" in shown
    assert "older: in none of its chunks, in 13 of the corpus" in shown
    value = in_json(run("explain", "docs", "older snapshot", "--expect", "ops/rollback.md", "--json"))["expected"]
    assert (value["verdict"], value["fused"]["rank"], value["terms_lacking"]) == ("ranked", 1, [])


def test_a_filter_that_leaves_the_document_out_is_told(run: Command) -> None:
    arguments = ("explain", "docs", "older snapshot", "--expect")
    filtered = run(*arguments, "ops/rollback.md", "--where", "path LIKE 'filler/%'").stdout
    assert "ops/rollback.md: the condition holds for none of its 1 chunk" in filtered


def test_an_id_that_does_not_exist_is_a_mistake(run: Command) -> None:
    arguments = ("explain", "docs", "older snapshot", "--expect", "rollback.md")
    unknown = run(*arguments, check=2)
    told = "rag-pipeline: --expect: rollback.md: the snapshot has no document of this id; like it: ops/rollback.md\n"
    assert (unknown.stdout, unknown.stderr) == ("", told)
    value = in_json(run(*arguments, "--json", check=2))["expected"]
    assert (value["verdict"], value["similar"]) == ("unknown", ["ops/rollback.md"])
