"""Answers judged by RAGAS itself, against a server on this machine whose judgements are known."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.errors import CredentialsError, GenerationError
from rag_pipeline.evaluation import GenerationEvaluation, evaluate_generation, load_query_set
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.evaluation.chat_server import INVENTED, UNSURE, ChatServer, Reply, Request
from rag_pipeline_tests.evaluation.generation_corpus import KEY, PAGES, YAML, prepared, settings_for
from rag_pipeline_tests.provider_server import ProviderServer

pytestmark = pytest.mark.models

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-c", "import sys; from rag_pipeline.cli import main; sys.exit(main())"]


@pytest.fixture(autouse=True)
def key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def evaluated(workspace: Workspace, server: ChatServer, model: str = "grounded", **options: Any) -> GenerationEvaluation:
    settings = settings_for(server, model, **options.pop("values", {}))
    return evaluate_generation(workspace.index(), load_query_set(workspace.config()), settings, **options)


def means(evaluation: GenerationEvaluation) -> dict[str, float | None]:
    return {name: figure.mean for name, figure in evaluation.means().items()}


class TestScores:
    @pytest.mark.parametrize(("model", "faithfulness"), [("grounded", 1.0), ("half", 0.5), ("inventor", 0.0)])
    def test_an_answer_is_as_faithful_as_its_passages_bear_it_out(
        self, workspace: Workspace, model: str, faithfulness: float
    ) -> None:
        with ChatServer() as server:
            evaluation = evaluated(prepared(workspace), server, model)
        assert [result.scores["faithfulness"] for result in evaluation.results] == [faithfulness] * 3
        assert evaluation.failed == ()

    def test_an_answer_about_something_else_is_less_relevant(self, workspace: Workspace) -> None:
        prepared(workspace)
        with ChatServer() as server:
            grounded, half, inventor, unsure = (
                means(evaluated(workspace, server, model))["answer_relevancy"]
                for model in ("grounded", "half", "inventor", "unsure")
            )
        assert grounded is not None
        assert half is not None
        assert inventor is not None
        assert grounded > half > inventor
        assert unsure == 0.0

    def test_contexts_are_judged_against_the_reference_where_there_is_one(self, workspace: Workspace) -> None:
        with ChatServer() as server:
            first, second, third = evaluated(prepared(workspace), server).results
        # One of the reference's two sentences stands in a passage, and the passage that holds it is found first.
        assert (first.scores["context_recall"], first.scores["context_precision"]) == (0.5, 1.0)
        assert "context_utilization" not in first.scores
        for result in (second, third):
            assert result.scores.keys() == {"faithfulness", "answer_relevancy", "context_utilization"}
            assert result.scores["context_utilization"] == 1.0

    def test_a_useful_passage_further_down_makes_for_less_precision(self, workspace: Workspace) -> None:
        prepared(workspace)
        hits = workspace.index().search("where does the lighthouse stand?", 3)
        assert hits[0].document_id == "001.txt"
        # Only the mill's page is useful for this reference, at whatever rank it stands.
        rank = next(one.rank for one in hits if one.document_id == "002.txt")
        queries = load_query_set(workspace.config())
        queries.references["q1"] = PAGES["002.txt"]
        with ChatServer() as server:
            evaluation = evaluate_generation(workspace.index(), queries, settings_for(server))
        assert evaluation.results[0].scores["context_precision"] == pytest.approx(1 / rank, abs=1e-6)


class TestRun:
    def test_answers_contexts_and_usage_are_kept(self, workspace: Workspace) -> None:
        with ChatServer() as server:
            evaluation = evaluated(prepared(workspace), server, "half", values={"judge_model": "openai/gpt-4o", "top_k": 2})
        first = evaluation.results[0]
        assert first.answer == f"{PAGES['001.txt']} {INVENTED}"
        assert len(first.contexts) == 2
        answering, judging = evaluation.usage
        assert (answering.model, answering.requests, answering.cost_usd) == ("openai/half", 3, None)
        # Faithfulness 2, relevancy 3, a request a context, and recall where there is a reference.
        assert (judging.model, judging.requests) == ("openai/gpt-4o", 3 * (2 + 3 + 2) + 1)
        assert judging.cost_usd is not None
        assert judging.cost_usd > 0
        assert {request.key for request in server.requests} == {KEY}

    def test_a_limit_asks_fewer(self, workspace: Workspace) -> None:
        done: list[int] = []
        with ChatServer() as server:
            evaluation = evaluated(prepared(workspace), server, limit=1, advance=done.append)
        assert (len(evaluation.results), evaluation.queries_available, done) == (1, 3, [1])

    def test_a_hosted_embedder_is_asked_for_questions(self, workspace: Workspace) -> None:
        with ProviderServer() as provider, ChatServer() as server:
            embedding = f"{{provider: openai, dimensions: 64, api_base: '{provider.api_base}'}}"
            prepared(workspace, f"{YAML}embedding: {embedding}\n")
            evaluation = evaluated(workspace, server)
        assert evaluation.failed == ()
        assert all(0 < result.scores["answer_relevancy"] <= 1 for result in evaluation.results)


def refusing(word: str, status: int = 400) -> Any:
    """Refuses whatever asks about a word."""

    def reply(request: Request) -> Reply | None:
        return Reply(status, "this is refused") if word in str(request.given.get("question", "")) else None

    return reply


class TestFailures:
    def test_a_query_that_is_refused_is_named_and_the_others_stay(self, workspace: Workspace) -> None:
        with ChatServer(refusing("harbour")) as server:
            evaluation = evaluated(prepared(workspace), server)
        (failed,) = evaluation.failed
        assert failed.query_id == "q3"
        assert failed.failures.keys() == {"answer"}
        assert "this is refused" in failed.failures["answer"]
        assert evaluation.means()["faithfulness"].queries == 2

    def test_one_metric_may_fail_alone(self, workspace: Workspace) -> None:
        def reply(request: Request) -> Reply | None:
            return Reply(content="I cannot.") if request.form == "ContextRecallOutput" else None

        with ChatServer(reply) as server:
            evaluation = evaluated(prepared(workspace), server)
        (failed,) = evaluation.failed
        assert failed.failures.keys() == {"context_recall"}
        assert failed.scores.keys() == {"faithfulness", "answer_relevancy", "context_precision"}
        figure = evaluation.means()["context_recall"]
        assert (figure.mean, figure.queries) == (None, 0)

    def test_what_has_no_score_is_told_so(self, workspace: Workspace) -> None:
        def reply(request: Request) -> Reply | None:
            return Reply(content='{"statements": []}') if request.form == "StatementGeneratorOutput" else None

        with ChatServer(reply) as server:
            evaluation = evaluated(prepared(workspace), server)
        assert {result.failures["faithfulness"] for result in evaluation.results} == {"not defined for this answer"}

    def test_where_nothing_could_be_judged_the_first_reason_is_raised(self, workspace: Workspace) -> None:
        prepared(workspace)
        refused = r"none of 3 queries could be judged: .*no such luck"
        with ChatServer(lambda request: Reply(400, "no such luck")) as server, pytest.raises(GenerationError, match=refused):
            evaluated(workspace, server)
        with ChatServer() as server, pytest.raises(GenerationError, match="openai/silent answered nothing"):
            evaluated(workspace, server, "silent")

    def test_a_refused_key_ends_it_at_once(self, workspace: Workspace) -> None:
        prepared(workspace)
        with ChatServer(lambda request: Reply(401, "wrong key {key}")) as server:
            with pytest.raises(CredentialsError) as raised:
                evaluated(workspace, server, values={"concurrency": 1})
            assert len(server.requests) == 1
        assert KEY not in str(raised.value)


class TestCommand:
    def run(self, workspace: Workspace, server: ChatServer, *arguments: str, model: str = "openai/grounded") -> Any:
        command = [*COMMAND, "evaluate", "docs", "--generation", "--model", model, "--api-base", server.address, *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=workspace.environment, capture_output=True, text=True, timeout=120, check=False
        )

    def test_people_see_means_usage_and_what_failed(self, workspace: Workspace) -> None:
        prepared(workspace)
        with ChatServer(refusing("harbour")) as server:
            done = self.run(workspace, server, "--per-query", model="openai/gpt-4o-mini")
        assert (done.returncode, done.stderr) == (0, "")
        lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
        assert lines[0] == (
            "docs, snapshot 1: 3 queries, answered by openai/gpt-4o-mini from 5 chunks, judged by openai/gpt-4o-mini"
        )
        assert lines[1:3] == ["metric mean queries", "faithfulness 1.000 2"]
        assert "context_recall 0.500 1" in lines
        assert any(line.startswith("q1 1.000 ") and line.endswith("where does the lighthouse stand?") for line in lines)
        assert any(line.startswith("openai/gpt-4o-mini: ") and line.endswith(" USD") for line in lines)
        assert "1 of 3 queries without a figure:" in lines
        assert lines[-1].startswith("q3: answer: openai/gpt-4o-mini refused the request (status 400): ")

    def test_machines_get_every_query(self, workspace: Workspace) -> None:
        prepared(workspace)
        with ChatServer() as server:
            done = self.run(workspace, server, "--json", "-k", "2", model="openai/unsure")
        value = json.loads(done.stdout)
        assert value["metrics"]["faithfulness"] == {"mean": 0.0, "queries": 3}
        assert (value["corpus"], value["snapshot"], value["queries"], value["failed"]) == ("docs", 1, 3, 0)
        assert [result["query_id"] for result in value["results"]] == ["q1", "q2", "q3"]
        assert {result["answer"] for result in value["results"]} == {UNSURE}

    def test_a_corpus_may_name_its_models(self, workspace: Workspace) -> None:
        with ChatServer() as server:
            inside = (
                f"queries: queries.jsonl, qrels: qrels.tsv, generation: {{model: openai/half, api_base: '{server.address}'}}"
            )
            prepared(workspace, f"source: {{path: files}}\nevaluation: {{{inside}}}\n")
            done = subprocess.run(
                [*COMMAND, "evaluate", "docs", "--generation", "--json"],
                cwd=ROOT, env=workspace.environment, capture_output=True, text=True, timeout=120, check=True,
            )  # fmt: skip
        assert json.loads(done.stdout)["metrics"]["faithfulness"]["mean"] == 0.5

    def test_an_interrupt_ends_it_soon(self, workspace: Workspace) -> None:
        prepared(workspace)
        with ChatServer(lambda request: Reply(seconds=120)) as server:
            command = [*COMMAND, "evaluate", "docs", "--generation", "--model", "openai/a", "--api-base", server.address]
            started = subprocess.Popen(command, cwd=ROOT, env=workspace.environment, stderr=subprocess.PIPE, text=True)
            while not server.requests and started.poll() is None:
                time.sleep(0.05)
            interrupted = time.monotonic()
            started.send_signal(signal.SIGINT)
            _, told = started.communicate(timeout=60)
            waited = time.monotonic() - interrupted
        assert started.returncode == 130, told
        assert waited < 60  # seconds that a busy machine takes; the answer would come after 120
        assert "Traceback" not in told


ALONE = """
import json, os, sys

contacted = set()

def watch(event, arguments):
    if event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        address = arguments[0]
    else:
        return
    contacted.add(str(address[0] if isinstance(address, tuple) else address))

sys.addaudithook(watch)
from rag_pipeline.cli import main

code = main(sys.argv[1:])
import ragas._analytics
assert ragas._analytics.do_not_track()
sys.stderr.write(json.dumps(sorted(contacted)))
sys.exit(code)
"""


def test_nobody_is_contacted_but_the_provider_and_nothing_is_written_down(workspace: Workspace, tmp_path: Path) -> None:
    prepared(workspace)
    home = tmp_path / "home"
    home.mkdir()
    variables = {"HOME": str(home), "XDG_DATA_HOME": str(home / "share"), "RAGAS_DO_NOT_TRACK": "false"}
    with ChatServer() as server:
        done = subprocess.run(
            [sys.executable, "-c", ALONE, "evaluate", "docs", "--generation", "--model", "openai/a",
             "--api-base", server.address, "--json"],
            cwd=ROOT, env={**workspace.environment, **variables}, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr) == ["127.0.0.1"]
    assert not any("ragas" in path.name for path in home.rglob("*"))
