"""Context lines that a chat model writes, by a server on this machine: asked once, kept, and failing as configured."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from typing import Any

import pytest

from rag_pipeline.errors import BudgetError, ConfigError, ContextLineError, CredentialsError, ProviderError
from rag_pipeline.refresh.context_lines import _CONCURRENCY
from rag_pipeline.refresh.plan import plan_refresh
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.rerank_server import Fault, RerankServer, written_line

KEY = "test-4fZ81kQw-77Lp_secret"
PAGES = {
    "a.md": "# Apples\n\n## Red\n\nRed apples are sweet.\n\n## Green\n\nGreen apples are sour.\n",
    "b.md": "# Bread\n\nBread is baked from flour.\n",
    "c.txt": "Cheese comes from milk.\n",
}


@pytest.fixture(autouse=True)
def key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def write(workspace: Workspace, server: RerankServer, extra: str = "", budget: str = "", **files: str) -> None:
    yaml = (
        "source: {path: files}\nembedding: {provider: hash}\n"
        "safety: {max_delete_fraction: 1.0}\n"
        f"chunking: {{context: llm, context_model: openai/writer, context_api_base: '{server.address}/v1'{extra}}}\n{budget}"
    )
    workspace.corpus(yaml=yaml, files=files or PAGES)


def contexts(workspace: Workspace) -> dict[str, str]:
    table = workspace.context().store.table("chunks")
    assert table is not None
    rows = table.search().select(["text", "context"]).to_arrow().to_pylist()
    return {row["text"]: row["context"] for row in rows}


def test_every_chunk_is_indexed_under_title_headings_and_a_written_line(workspace: Workspace) -> None:
    with RerankServer() as server:
        write(workspace, server)
        reports = workspace.refresh()
    assert reports["chunks"].context_lines_written == reports["chunks"].total == 4
    text = "# Apples\n\n## Red\n\nRed apples are sweet."
    assert contexts(workspace)[text] == f"Apples > Red: {written_line('Apples', text)}"
    hits = workspace.index().search("zanzibar", mode="bm25")
    assert len(hits) == 4
    assert all("anzibar" not in hit.text for hit in hits)
    assert reports["chunks"].context_tokens == 4 * 7


def test_the_model_sees_the_passage_in_its_document_and_the_right_key(workspace: Workspace) -> None:
    with RerankServer() as server:
        write(workspace, server, **{"long.txt": "Beginning. " + "filler " * 3000 + "\n\nThe very end.\n"})
        workspace.refresh()
        last = next(request for request in server.requests if request.texts[0].endswith("The very end."))
    content = last.body["messages"][1]["content"]
    assert last.key == KEY
    assert last.body["model"] == "writer"
    assert content.count("Beginning.") == 1
    assert len(content) < 20_000


def test_what_does_not_change_is_asked_for_once(workspace: Workspace) -> None:
    with RerankServer() as server:
        write(workspace, server)
        workspace.refresh()
        asked = len(server.requests)
        assert not workspace.refresh()["snapshot"].published
        workspace.write("b.md", PAGES["b.md"] + "\n## Rye\n\nRye bread is dark.\n")
        report = workspace.refresh()["chunks"]
        assert (len(server.requests), report.context_lines_written) == (asked + 1, 1)
        workspace.refresh(full=True)
        assert len(server.requests) == asked + 1


def test_a_refresh_that_failed_goes_on_where_it_stopped(workspace: Workspace) -> None:
    with RerankServer([None, None, Fault(401, "no such key"), Fault(401, "no such key")]) as server:
        write(workspace, server)
        with pytest.raises(CredentialsError, match="refused the key"):
            workspace.refresh()
        table = workspace.context().store.table("context_lines")
        assert table is not None
        kept = table.count_rows()
        assert kept >= 1
        assert workspace.refresh()["chunks"].context_lines_written == 4 - kept


def test_where_headings_may_stand_for_lines_the_next_refresh_asks_again(
    workspace: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    with RerankServer([Fault(404, "no such model")] * 4) as server, caplog.at_level(logging.WARNING, "rag_pipeline"):
        write(workspace, server, ", context_on_failure: headings")
        reports = workspace.refresh()
        assert (reports["chunks"].context_lines_written, reports["chunks"].context_lines_missing) == (0, 4)
        assert reports["snapshot"].published
        assert contexts(workspace)["# Apples\n\n## Red\n\nRed apples are sweet."] == "Apples > Red"
        assert "no such model" in caplog.text
        assert KEY not in caplog.text
        before = workspace.index()
        reports = workspace.refresh()
    assert reports["chunks"].context_lines_written == 4
    assert reports["snapshot"].published
    assert before.manifest.hash != workspace.index().manifest.hash
    assert len(workspace.index().search("zanzibar", mode="bm25")) == 4
    assert len(before.search("zanzibar", mode="bm25")) == 0


def test_a_refused_passage_is_an_error_that_names_it(workspace: Workspace) -> None:
    with RerankServer([Fault(400, "content policy")]) as server:
        write(workspace, server, **{"only.txt": "Some text.\n"})
        with pytest.raises(ContextLineError, match=r"'only.txt', characters 0 to 10: .*content policy"):
            workspace.refresh()


def test_a_refused_passage_stands_alone_under_its_headings_where_it_may(workspace: Workspace) -> None:
    with RerankServer([Fault(400, "content policy")]) as server:
        write(workspace, server, ", context_on_failure: headings")
        report = workspace.refresh()["chunks"]
    assert (report.context_lines_written, report.context_lines_missing) == (3, 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda body: {**body, "choices": [{**body["choices"][0], "message": {"role": "assistant", "content": " \n "}}]},
        lambda body: {**body, "choices": [{**body["choices"][0], "message": {"role": "assistant", "content": None}}]},
    ],
    ids=["blank", "null"],
)
def test_no_line_is_no_answer(workspace: Workspace, change: Any) -> None:
    with RerankServer([Fault(change=change)]) as server:
        write(workspace, server, **{"only.txt": "Some text.\n"})
        with pytest.raises(ContextLineError, match="nothing was answered"):
            workspace.refresh()


def test_a_line_of_many_lines_is_one_line_of_bounded_length(workspace: Workspace) -> None:
    def chatter(body: dict[str, Any]) -> dict[str, Any]:
        message = {"role": "assistant", "content": "Here\n\nit is: " + "word " * 500}
        return {**body, "choices": [{**body["choices"][0], "message": message}]}

    with RerankServer([Fault(change=chatter)]) as server:
        write(workspace, server, **{"only.txt": "Some text.\n"})
        workspace.refresh()
    (line,) = contexts(workspace).values()
    assert line.startswith("Here it is: word word")
    assert len(line) <= 300


def test_the_budget_stops_before_it_is_passed_and_the_next_refresh_goes_on(workspace: Workspace) -> None:
    with RerankServer() as server:
        # A request is estimated at some 330 tokens and takes 7, so that one is let through after the other.
        write(workspace, server, budget="budget: {tokens_per_refresh: 100}\n")
        with pytest.raises(BudgetError, match=r"budget.tokens_per_refresh, 100 tokens"):
            workspace.refresh()
        assert not server.requests
        write(workspace, server, budget="budget: {tokens_per_refresh: 100000}\n")
        assert workspace.refresh()["chunks"].context_lines_written == 4


def test_a_budget_in_money_needs_a_price(workspace: Workspace) -> None:
    with RerankServer() as server:
        write(workspace, server, budget="budget: {usd_per_refresh: 1.0}\n")
        with pytest.raises(ConfigError, match=r"price of openai/writer is not known; set budget.tokens_per_refresh"):
            workspace.refresh()


def test_a_model_with_a_price_reports_its_cost(workspace: Workspace) -> None:
    with RerankServer() as server:
        write(workspace, server)
        file = workspace.corpora / "docs" / "corpus.yaml"
        file.write_text(file.read_text().replace("openai/writer", "openai/gpt-4o-mini"))
        cost = workspace.refresh()["chunks"].context_cost_usd
    assert cost is not None
    assert 0 < cost < 0.001


def test_another_model_writes_anew_and_another_address_does_not(workspace: Workspace) -> None:
    with RerankServer() as server, RerankServer() as elsewhere:
        write(workspace, server)
        workspace.refresh()
        write(workspace, elsewhere)
        assert workspace.refresh()["chunks"].documents_chunked == 0
        assert not elsewhere.requests
        file = workspace.corpora / "docs" / "corpus.yaml"
        file.write_text(file.read_text().replace("openai/writer", "openai/author"))
        assert workspace.refresh()["chunks"].context_lines_written == 4
        assert len(elsewhere.requests) == 4


def test_a_provider_that_is_down_is_told_with_what_was_kept(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_pipeline.refresh.context_lines._RETRY_SECONDS", 0.1)
    with RerankServer([Fault(503, "overloaded")] * 40) as server:
        write(workspace, server, **{"only.txt": "Some text.\n"})
        with pytest.raises(ProviderError, match=r"overloaded.*The lines that were written are kept"):
            workspace.refresh()


def test_a_dry_run_asks_nobody_and_counts_the_lines(workspace: Workspace) -> None:
    with RerankServer() as server:
        write(workspace, server)
        assert plan_refresh(workspace.context(dry_run=True)).context_lines_to_write == 4
        assert not server.requests
        workspace.refresh()
        plan = plan_refresh(workspace.context(dry_run=True))
        assert (plan.context_lines_to_write, plan.texts_to_embed, plan.documents_to_chunk) == (0, 0, 0)


@pytest.mark.parametrize(("context", "line"), [("title_and_headings", "Apples > Red"), ("title", "Apples"), ("none", "")])
def test_without_a_model_the_line_is_what_is_configured(workspace: Workspace, context: str, line: str) -> None:
    workspace.corpus(yaml=f"source: {{path: files}}\nchunking: {{context: {context}}}\n", files=PAGES)
    workspace.refresh()
    assert contexts(workspace)["# Apples\n\n## Red\n\nRed apples are sweet."] == line
    found = workspace.index().search("red apples are sweet", mode="bm25", k=1)[0]
    assert found.heading_path == "Apples > Red"


@pytest.mark.slow
def test_a_refresh_that_is_killed_pays_again_only_for_what_was_under_way(workspace: Workspace) -> None:
    files = {f"{number}.txt": f"Page number {number}.\n" for number in range(40)}
    program = (
        "import sys; from pathlib import Path; from rag_pipeline_tests.conftest import Workspace; "
        "Workspace(Path(sys.argv[1])).refresh()"
    )
    slowly = [Fault(change=lambda body: (time.sleep(0.05), body)[1])] * 1000
    with RerankServer(slowly) as server:
        write(workspace, server, **files)
        child = subprocess.Popen([sys.executable, "-c", program, str(workspace.root)])
        deadline = time.monotonic() + 120
        while len(server.requests) < 20 and time.monotonic() < deadline and child.poll() is None:
            time.sleep(0.01)
        child.kill()
        child.wait()
        assert 20 <= len(server.requests) < 40
        workspace.refresh()
        assert len(contexts(workspace)) == 40
        assert len(server.requests) <= 40 + 2 * _CONCURRENCY
