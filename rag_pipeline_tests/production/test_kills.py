"""A deployment as compose.yaml has it, on a real PostgreSQL: what is killed leaves no run that hangs, no corpus blocked."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import dagster as dg
import pytest

from rag_pipeline.orchestration import names
from rag_pipeline.orchestration.purge import delete_run, old_runs
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.production.deployment import FINAL, Deployment, eventually
from rag_pipeline_tests.production.postgres import postgres
from rag_pipeline_tests.provider_server import ProviderServer
from rag_pipeline_tests.webhook_server import Webhook

pytestmark = pytest.mark.production

POOL = "embedding_openai"
SLOW, QUICK = 1.0, 0.0


class Refreshing:
    """A corpus whose embedding takes as long as the test wants it to, and the deployment that refreshes it."""

    def __init__(self, workspace: Workspace, server: ProviderServer, deployment: Deployment, webhook: Webhook) -> None:
        self.workspace, self.server, self.deployment, self._webhook = workspace, server, deployment, webhook
        self._edition = 0

    def edit(self) -> None:
        """Change all documents, so that there is something to embed."""
        self._edition += 1
        for number in range(40):
            self.workspace.write(f"{number}.md", f"# Page {number}\n\nThis is page {number}, edition {self._edition}.\n")

    def launch_and_wait_for_embedding(self) -> str:
        self.edit()
        self.server.delay = SLOW
        asked = len(self.server.requests)
        run_id = self.deployment.launch("refresh_docs")
        eventually(lambda: len(self.server.requests) > asked, 120, "the refresh embeds")
        return run_id

    def finish(self) -> None:
        self.server.delay = QUICK

    def status(self, run_id: str) -> str:
        (status,) = [run["status"] for run in self.deployment.runs() if run["runId"] == run_id]
        return str(status)

    def wait(self, run_id: str, expected: str) -> None:
        found = eventually(lambda: self.status(run_id) in FINAL and self.status(run_id), 180, f"{run_id} ends")
        assert found == expected, self.deployment.log()

    def wait_for_retry(self, killed: str) -> None:
        """The run that was killed is marked failed, and started once more by the daemon, which succeeds."""
        self.wait(killed, "FAILURE")
        retries = lambda: [run for run in self.deployment.runs() if run["tags"].get("dagster/parent_run_id") == killed]  # noqa: E731
        (retry,) = eventually(retries, 120, "the daemon starts the run once more")
        self.wait(retry["runId"], "SUCCESS")

    def wait_for_alert(self, killed: str) -> None:
        told = lambda: [told["body"] for told in self._webhook.received if told["body"]["run_id"] == killed]  # noqa: E731
        (alert,) = eventually(told, 90, "the webhook is told")
        assert (alert["corpus"], alert["will_retry"]) == ("docs", True)
        assert alert["url"] == f"https://dagster.example.org/runs/{killed}"

    def assert_nothing_is_held(self) -> None:
        assert {run["status"] for run in self.deployment.runs()} <= FINAL
        with environment(self.deployment.variables), dg.DagsterInstance.get() as instance:
            storage = instance.event_log_storage
            eventually(lambda: not storage.get_concurrency_info(POOL).claimed_slots, 60, "the pool is free")

    def assert_served(self) -> None:
        hit = self.workspace.index().search("page 7", k=1, mode="bm25")[0]
        assert f"edition {self._edition}" in hit.text


@contextlib.contextmanager
def environment(variables: dict[str, str]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def refreshing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refreshing]:
    workspace = Workspace(tmp_path_factory.mktemp("deployment"))
    with ProviderServer(dimensions=16) as server, Webhook() as webhook, postgres() as database:
        workspace.corpus(
            yaml="source: {path: files}\nembedding: {provider: openai, model: stub, dimensions: 16, batch_size: 2, "
            f"concurrency: 1, api_base: '{server.api_base}', retry_seconds: 5}}\n"
        )
        variables = {
            "OPENAI_API_KEY": "sk-test-" + "9f3c" * 8,
            "RAG_PIPELINE_ALERT_WEBHOOK": webhook.address,
            "RAG_PIPELINE_UI_URL": "https://dagster.example.org",
        }
        deployment = Deployment(workspace, database, variables)
        try:
            deployment.start_all()
            yield Refreshing(workspace, server, deployment, webhook)
        finally:
            deployment.stop()


def test_a_refresh_launched_in_the_ui_succeeds_and_the_daemon_is_healthy(refreshing: Refreshing) -> None:
    refreshing.edit()
    refreshing.wait(refreshing.deployment.launch("refresh_docs"), "SUCCESS")
    refreshing.assert_served()
    eventually(lambda: refreshing.deployment.healthy("daemon"), 60, "the daemon answers its health check")


def test_daemon_and_web_ui_killed_in_the_middle_of_a_run_do_not_disturb_it(refreshing: Refreshing) -> None:
    run_id = refreshing.launch_and_wait_for_embedding()
    for service in ("daemon", "webserver"):
        refreshing.deployment.kill(service)
        refreshing.deployment.start(service)
    refreshing.finish()
    eventually(lambda: refreshing.deployment.healthy("webserver"), 120, "the web UI is back")
    refreshing.wait(run_id, "SUCCESS")
    refreshing.assert_nothing_is_held()
    refreshing.assert_served()


def test_a_killed_worker_is_noticed_and_the_run_started_once_more(refreshing: Refreshing) -> None:
    run_id = refreshing.launch_and_wait_for_embedding()
    (run,) = [run for run in refreshing.deployment.runs() if run["runId"] == run_id]
    _, worker, *_ = run["tags"][names.PROCESS_TAG].split(", ")
    os.kill(int(worker.split()[0]), signal.SIGKILL)
    refreshing.finish()
    refreshing.wait_for_retry(run_id)
    refreshing.wait_for_alert(run_id)
    refreshing.assert_nothing_is_held()
    refreshing.assert_served()


def test_a_code_server_killed_with_its_workers_leaves_no_run_that_hangs(refreshing: Refreshing) -> None:
    """Dagster alone does not notice this: the run would stay started and hold the corpus's place in the queue."""
    run_id = refreshing.launch_and_wait_for_embedding()
    refreshing.deployment.kill("code")
    assert refreshing.status(run_id) == "STARTED"
    refreshing.finish()
    refreshing.deployment.start("code")
    refreshing.wait_for_retry(run_id)
    refreshing.wait_for_alert(run_id)
    refreshing.assert_nothing_is_held()
    refreshing.assert_served()


def test_old_runs_are_purged_from_postgresql_but_the_last_of_each_asset(refreshing: Refreshing) -> None:
    """The newest run began where the killed one before it had stopped, which materialised the first assets last."""
    newest, killed, *others = [run["runId"] for run in refreshing.deployment.runs()]
    with environment(refreshing.deployment.variables), dg.DagsterInstance.get() as instance:
        soon = datetime.now(timezone.utc) + timedelta(hours=1)
        old = old_runs(instance, soon)
        assert sorted(old) == sorted(others)
        for run_id in old:
            delete_run(instance, run_id)
        assert not old_runs(instance, soon)
    assert [run["runId"] for run in refreshing.deployment.runs()] == [newest, killed]
