"""Hosted embedding models under Dagster: pools, and keys that are stored nowhere."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
import pytest

from rag_pipeline.orchestration import names
from rag_pipeline.orchestration.corpus_definitions import build_definitions
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.provider_server import Fault, ProviderServer, echo_key, echo_key_429, status

KEY = "sk-test-" + "9f3c" * 8
POOLS = "telemetry: {enabled: false}\nconcurrency: {pools: {granularity: op, default_limit: 1}}\n"


def corpus(workspace: Workspace, server: ProviderServer, name: str = "docs", texts: int = 12) -> None:
    workspace.corpus(
        name,
        yaml="source: {path: files}\nembedding: {provider: openai, model: stub, dimensions: 16, batch_size: 2, "
        f"concurrency: 2, api_base: '{server.api_base}', retry_seconds: 5}}\n",
        files={f"{n}.md": f"# Page {n}\n\nThis is page number {n} of {name}.\n" for n in range(texts)},
    )


def command(workspace: Workspace, *arguments: str, key: str | None = KEY) -> subprocess.Popen[str]:
    home = workspace.root / "dagster_home"
    home.mkdir(exist_ok=True)
    (home / "dagster.yaml").write_text(POOLS, encoding="utf-8")
    environment = {**workspace.environment, "DAGSTER_HOME": str(home)}
    environment |= {"OPENAI_API_KEY": key} if key is not None else {}
    return subprocess.Popen(
        [sys.executable, "-c", "import sys; from rag_pipeline.cli import main; sys.exit(main())", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def files_with(root: Path, secret: str) -> list[str]:
    return [
        str(file.relative_to(root)) for file in root.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()
    ]


@pytest.mark.parametrize("end", ["published", "refused"])
def test_a_key_that_the_provider_echoes_is_stored_and_printed_nowhere(workspace: Workspace, end: str) -> None:
    """Neither in Dagster's event log and stored traces, nor in manifests, tables and messages."""
    slow_down = [echo_key_429(), status(500, f"oops {KEY}"), status(429, f"slow down {KEY}", retry_after="0")]
    faults: list[Fault] = slow_down if end == "published" else [*slow_down, *itertools.repeat(echo_key(), 50)]
    with ProviderServer(dimensions=16, faults=faults) as server:
        corpus(workspace, server)
        process = command(workspace, "refresh", "docs", "--debug")
        out, err = process.communicate(timeout=120)
    assert process.returncode == (0 if end == "published" else 2), err
    if end == "refused":
        assert "OPENAI_API_KEY" in err
        assert "openai/stub" in err
    assert KEY not in out + err
    assert "9f3c9f3c" not in out + err
    assert not files_with(workspace.root, KEY)
    assert not files_with(workspace.root, "9f3c9f3c")


def test_a_refresh_that_fails_says_what_was_paid(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ProviderServer(dimensions=16) as server:
        corpus(workspace, server)
        file = workspace.corpora / "docs" / "corpus.yaml"
        price = "usd_per_million_tokens: 1000000, retry_seconds"
        file.write_text(file.read_text().replace("retry_seconds", price) + "budget: {tokens_per_refresh: 60}\n")
        process = command(workspace, "refresh", "docs", "--json")
        out, err = process.communicate(timeout=120)
        sent = sum(len(text.split()) for text in server.answered_texts.elements())
    (report,) = json.loads(out)
    assert report["status"] == "failed"
    assert 0 < report["embedded"] < 12
    assert 0 < report["tokens"] <= 60
    assert report["tokens"] == report["cost_usd"] == sent
    error, paid = err.splitlines()
    assert "budget.tokens_per_refresh" in error
    assert paid == f"  {sent} tokens were sent before, {sent}.0000 USD; what came of them is kept"
    with dg.DagsterInstance.from_config(str(workspace.root / "dagster_home")) as instance:
        (run,) = instance.get_runs()
        (failed,) = instance.all_logs(run.run_id, of_type={dg.DagsterEventType.STEP_FAILURE})
    assert failed.dagster_event is not None
    shown = failed.dagster_event.step_failure_data.user_failure_data
    assert shown is not None
    assert {name: value.value for name, value in shown.metadata.items()}["cost_usd"] == sent


def test_corpora_of_one_provider_share_a_pool(workspace: Workspace) -> None:
    with ProviderServer(dimensions=16) as server:
        corpus(workspace, server, "first")
        corpus(workspace, server, "second")
        workspace.corpus("third")
    definitions = build_definitions([workspace.config(name) for name in ("first", "second", "third")])
    graph = definitions.resolve_asset_graph()
    pools = {name: graph.get(dg.AssetKey([name, names.EMBEDDINGS])).pools for name in ("first", "second", "third")}
    assert pools == {"first": {"embedding_openai"}, "second": {"embedding_openai"}, "third": set()}


@pytest.mark.slow
def test_a_killed_refresh_gives_back_its_place_in_the_pool_and_is_marked_failed(workspace: Workspace) -> None:
    with ProviderServer(dimensions=16, delay=0.5) as server:
        corpus(workspace, server, texts=60)
        killed = command(workspace, "refresh", "docs")
        deadline = time.monotonic() + 60
        while len(server.requests) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        server.delay = 0.0
        again = command(workspace, "refresh", "docs")
        out, err = again.communicate(timeout=90)
    assert again.returncode == 0, err
    assert "snapshot 1 published" in out
    with dg.DagsterInstance.from_config(str(workspace.root / "dagster_home")) as instance:
        assert [run.status for run in instance.get_runs()] == [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE]
        assert not instance.event_log_storage.get_concurrency_info("embedding_openai").claimed_slots


@pytest.mark.slow
def test_a_refresh_that_waits_goes_on_when_the_one_it_waits_for_is_killed(workspace: Workspace) -> None:
    with ProviderServer(dimensions=16, delay=2.0) as server:
        corpus(workspace, server, "first", texts=200)
        corpus(workspace, server, "second", texts=2)
        holder = command(workspace, "refresh", "first")
        deadline = time.monotonic() + 120
        while not server.requests and time.monotonic() < deadline:
            time.sleep(0.05)
        waiter = command(workspace, "refresh", "second")
        assert waiter.stderr is not None
        told = waiter.stderr.readline()
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
        out, err = waiter.communicate(timeout=120)
    assert "second: embedding waits for a place in the Dagster pool embedding_openai" in told
    assert waiter.returncode == 0, err
    assert "second: snapshot 1 published" in out
