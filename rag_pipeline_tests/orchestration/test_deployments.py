"""A deployment sets its store, its models and its limits in one place; corpus.yaml stays the same in all of them."""

from __future__ import annotations

import dagster as dg
import pytest

from rag_pipeline.config import DEPLOYMENT_VARIABLES, CorpusConfig, Deployment
from rag_pipeline.errors import ConfigError
from rag_pipeline.orchestration import CorpusStores, Embedders, RefreshSettings, build_definitions
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.orchestration.instances import QUIET
from rag_pipeline_tests.orchestration.test_dagster import PAGES

HOSTED = (
    "source: {path: files}\n"
    "embedding: {provider: openai, model: stub, dimensions: 16, requests_per_minute: 100, concurrency: 8, "
    "fallback: [{provider: voyage}, {provider: static}]}\n"
    "budget: {usd_per_refresh: 5}\n"
)


def hosted(workspace: Workspace) -> CorpusConfig:
    workspace.corpus(yaml=HOSTED)
    return workspace.config()


def test_resources_say_where_the_store_is_and_which_model_may_be_asked(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.corpus(yaml=HOSTED, files=PAGES)
    monkeypatch.setenv("STORE_OF_STAGING", str(workspace.data))
    settings = RefreshSettings(
        stores=CorpusStores(data=dg.EnvVar("STORE_OF_STAGING")), embedders=Embedders(provider="static")
    )
    job = build_definitions([workspace.config()], settings).resolve_job_def("refresh_docs")
    assert job.execute_in_process(run_config=QUIET).success
    assert workspace.index().manifest.content.embedder.provider == "static"


def test_the_launchpad_changes_a_run_and_leaves_the_deployment_as_it_is(workspace: Workspace) -> None:
    workspace.corpus(yaml=HOSTED, files=PAGES)
    settings = RefreshSettings(stores=CorpusStores(data=str(workspace.data)), embedders=Embedders(provider="hash"))
    job = build_definitions([workspace.config()], settings).resolve_job_def("refresh_docs")
    config = {"resources": {"refresh_settings": {"config": {"full": True}}}}
    for _ in range(2):
        assert job.execute_in_process(run_config={**QUIET, **config}).success
    assert workspace.index().snapshot == 2
    assert workspace.index().manifest.content.embedder.provider == "hash"


def test_limits_only_ever_lower_what_a_corpus_allows_itself(workspace: Workspace) -> None:
    corpus = hosted(workspace)
    lowered = Deployment(usd_per_refresh=1, tokens_per_refresh=1000, requests_per_minute=10, concurrency=2).applied(corpus)
    assert (lowered.budget.usd_per_refresh, lowered.budget.tokens_per_refresh) == (1, 1000)
    chain = [(config.provider, config.requests_per_minute, config.concurrency) for config in lowered.embedding.chain]
    assert chain == [("openai", 10, 2), ("voyage", 10, 2), ("static", None, 4)]
    generous = Deployment(usd_per_refresh=50, requests_per_minute=1000, concurrency=64).applied(corpus)
    assert generous.budget.usd_per_refresh == 5
    assert (generous.embedding.requests_per_minute, generous.embedding.concurrency) == (100, 8)
    assert Deployment().applied(corpus) is corpus


def test_a_resource_that_cannot_be_is_a_line_that_names_it(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    workspace.corpus(files=PAGES)
    settings = RefreshSettings(
        stores=CorpusStores(data=str(workspace.data)), embedders=Embedders(provider="opnai", concurrency=0)
    )
    job = build_definitions([workspace.config()], settings).resolve_job_def("refresh_docs")
    result = job.execute_in_process(instance=instance, run_config=QUIET, raise_on_error=False)
    (failed,) = [event for event in result.all_events if event.is_step_failure]
    said = failed.step_failure_data.user_failure_data
    assert said is not None
    assert said.description == (
        "Embedders.provider=opnai: expected 'static', 'hash' or 'auto'\n"
        "Embedders.concurrency=0: expected greater than or equal to 1"
    )


def test_environment_variables_set_the_same_for_the_command_and_for_dagster(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert DEPLOYMENT_VARIABLES["usd_per_refresh"] == "RAG_PIPELINE_USD_PER_REFRESH"
    monkeypatch.setenv("RAG_PIPELINE_PROVIDER", "static")
    monkeypatch.setenv("RAG_PIPELINE_USD_PER_REFRESH", "0.5")
    monkeypatch.setenv("RAG_PIPELINE_CONCURRENCY", "")
    corpus = hosted(workspace)
    assert (corpus.embedding.provider, corpus.embedding.fallback) == ("static", ())
    assert corpus.budget.usd_per_refresh == 0.5


@pytest.mark.parametrize(
    ("name", "value"),
    [("RAG_PIPELINE_PROVIDER", "voyag"), ("RAG_PIPELINE_CONCURRENCY", "0"), ("RAG_PIPELINE_USD_PER_REFRESH", "much")],
)
def test_a_variable_that_cannot_be_is_named(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"^{name}={value}: expected "):
        hosted(workspace)
