"""`dagster dev`, killed as a whole in the middle of a run, as when a laptop's power goes: SQLite, one machine."""

from __future__ import annotations

import pytest

from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.production.dagster_dev import DagsterDev
from rag_pipeline_tests.production.deployment import FINAL, eventually
from rag_pipeline_tests.provider_server import ProviderServer

pytestmark = pytest.mark.production


def test_everything_killed_in_the_middle_of_a_run_and_started_again_leaves_no_run_that_hangs(workspace: Workspace) -> None:
    with ProviderServer(dimensions=16, delay=1.0) as server:
        workspace.corpus(
            yaml="source: {path: files}\nembedding: {provider: openai, model: stub, dimensions: 16, batch_size: 2, "
            f"concurrency: 1, api_base: '{server.api_base}', retry_seconds: 5}}\n",
            files={f"{number}.md": f"# Page {number}\n\nThis is page {number}.\n" for number in range(40)},
        )
        dev = DagsterDev(workspace, {"OPENAI_API_KEY": "sk-test-" + "9f3c" * 8})
        dev.start()
        killed = dev.launch("refresh_docs")
        eventually(lambda: server.requests, 120, "the refresh embeds")
        dev.kill()
        server.delay = 0.0
        dev.start()
        try:
            statuses = lambda: {run["runId"]: run["status"] for run in dev.runs("docs")}  # noqa: E731
            eventually(lambda: statuses()[killed] in FINAL, 120, "the killed run is marked")
            assert statuses()[killed] == "FAILURE", dev.log()
            eventually(lambda: len(statuses()) == 2 and set(statuses().values()) <= FINAL, 180, "it is started once more")
            assert sorted(statuses().values()) == ["FAILURE", "SUCCESS"], dev.log()
        finally:
            dev.stop()
    assert workspace.index().search("page 7", k=1, mode="bm25")[0].source == "7.md"
