"""Rerank APIs through LiteLLM, against a server on this machine."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import pytest

from rag_pipeline.config import RetrievalConfig
from rag_pipeline.errors import CredentialsError, ProviderError, RagPipelineError, RerankingError
from rag_pipeline.reranking import reranker_for
from rag_pipeline.reranking.hosted import HostedReranker
from rag_pipeline_tests.embedding.hosted.support import chain_of
from rag_pipeline_tests.embedding.hosted.test_odd_servers import raw_server
from rag_pipeline_tests.rerank_server import Fault, RerankServer
from rag_pipeline_tests.reranking.conftest import KEY

TEXTS = ["red green", "blue", "red blue green", "nothing"]
SCORES = [0.5, 0.5, 1.0, 0.0]
MODELS = {
    "cohere/rerank-v3.5": ("", "/v2/rerank"),
    "voyage/rerank-2.5": ("/v1", "/v1/rerank"),
    "jina_ai/jina-reranker-v2-base-multilingual": ("/v1", "/v1/rerank"),
    "hosted_vllm/our-reranker": ("/v1", "/v1/rerank"),
}
"""A model of each provider: what its api_base ends with, and the path that is asked."""


def reranker_on(server: RerankServer, model: str = "cohere/rerank-v3.5", **values: object) -> HostedReranker:
    settings = RetrievalConfig.model_validate(
        {"rerank": "litellm", "rerank_model": model, "rerank_api_base": server.address + MODELS[model][0], **values}
    )
    reranker = reranker_for(settings)
    assert isinstance(reranker, HostedReranker)
    reranker.model.gate.first_wait = 0.01
    return reranker


@pytest.mark.parametrize("model", MODELS)
def test_every_provider_scores_in_the_order_of_the_texts_with_its_key(model: str) -> None:
    with RerankServer() as server:
        assert reranker_on(server, model).scores("red blue", TEXTS).tolist() == SCORES
        (request,) = server.requests
    assert request.path == MODELS[model][1]
    assert request.key == KEY
    assert request.body["documents"] == TEXTS
    assert request.body["model"] == model.split("/", 1)[1]


def test_many_texts_are_dealt_into_requests_and_keep_their_places() -> None:
    texts = [f"red {number}" if number % 3 else "red blue" for number in range(25)]
    with RerankServer() as server:
        scores = reranker_on(server, rerank_batch_size=10).scores("red blue", texts)
        assert sorted(len(request.texts) for request in server.requests) == [5, 10, 10]
    assert scores.tolist() == [0.5 if number % 3 else 1.0 for number in range(25)]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(429, "slow down", retry_after="0"),
        Fault(500, "broken"),
        Fault(503, "overloaded"),
        Fault(raw="<!DOCTYPE html><html><body>Sign in</body></html>"),
        Fault(change=lambda body: {**body, "results": body["results"][1:]}),
        Fault(change=lambda body: {**body, "results": [{**row, "index": 0} for row in body["results"]]}),
        Fault(change=lambda body: {**body, "results": [{**row, "relevance_score": None} for row in body["results"]]}),
        Fault(change=lambda body: {**body, "results": [{**row, "index": 99} for row in body["results"]]}),
    ],
    ids=["429", "500", "503", "html", "short", "one index", "null", "out of range"],
)
def test_what_may_pass_is_asked_again_once(fault: Fault) -> None:
    with RerankServer([fault]) as server:
        assert reranker_on(server).scores("red blue", TEXTS).tolist() == SCORES
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (Fault(401, "invalid key {key}"), CredentialsError, "refused the key"),
        (Fault(400, "the query is too long for {key}"), RerankingError, "refused the request"),
        (Fault(404, "no model for {key}"), RerankingError, "not known there"),
        (Fault(402, "pay first, {key}"), RerankingError, "wants to be paid first"),
    ],
)
def test_what_does_not_pass_is_asked_once_and_tells_no_secret(
    fault: Fault, kind: type[RagPipelineError], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    with RerankServer([fault] * 9) as server, caplog.at_level(logging.DEBUG):
        with pytest.raises(kind, match=words) as raised:
            reranker_on(server).scores("red blue", TEXTS)
        assert len(server.requests) == 1
    assert all(KEY not in f"{error!r} {error}" for error in chain_of(raised.value))
    assert KEY not in caplog.text
    assert "rerank-v3.5" in str(raised.value)


def test_a_provider_that_asks_for_a_long_pause_is_given_up_at_once() -> None:
    with (
        RerankServer([Fault(429, "slow down", retry_after="600")] * 3) as server,
        pytest.raises(ProviderError, match=r"asked too often.*asks to wait 600 s; tried once\. Search again later"),
    ):
        reranker_on(server).scores("red blue", TEXTS)


def test_one_batch_that_fails_for_good_ends_the_others() -> None:
    faults: Sequence[Fault | None] = [Fault(400, "bad")] * 10
    with RerankServer(faults) as server, pytest.raises(RerankingError, match="refused the request"):
        reranker_on(server, rerank_batch_size=1).scores("red blue", TEXTS)


@pytest.mark.parametrize("model", ["cohere/rerank-v3.5", "voyage/rerank-2.5", "jina_ai/jina-reranker-v2-base-multilingual"])
def test_a_missing_key_is_told_by_its_variable_before_anything_is_asked(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variable = {"cohere": "COHERE_API_KEY", "voyage": "VOYAGE_API_KEY", "jina_ai": "JINA_AI_API_KEY"}[model.split("/")[0]]
    monkeypatch.delenv(variable)
    with RerankServer() as server:
        with pytest.raises(CredentialsError, match=variable):
            reranker_on(server, model).scores("red", TEXTS)
        assert not server.requests


@pytest.mark.parametrize("key", ["jina_0123456789\n", "jina_0123 456789", "jina_ü0123456789"])
def test_a_key_that_no_header_can_carry_is_refused_by_its_variable(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("JINA_AI_API_KEY", key)
    with RerankServer() as server:
        with pytest.raises(CredentialsError, match="JINA_AI_API_KEY holds white space") as raised:
            reranker_on(server, "jina_ai/jina-reranker-v2-base-multilingual").scores("red", TEXTS)
        assert not server.requests
    assert key.strip() not in str(raised.value)


def impatient(address: str, timeout_seconds: float = 30) -> HostedReranker:
    """A reranker whose first wait is longer than a search may take, so that it asks once."""
    reranker = reranker_for(
        RetrievalConfig(
            rerank="litellm",
            rerank_model="cohere/rerank-v3.5",
            rerank_api_base=address,
            rerank_timeout_seconds=timeout_seconds,
        )
    )
    assert isinstance(reranker, HostedReranker)
    reranker.model.gate.first_wait = 30
    return reranker


def test_an_address_where_nobody_listens_is_named_with_its_key_and_what_to_do() -> None:
    with pytest.raises(
        ProviderError,
        match=r"cannot be reached at http://127\.0\.0\.1:9: .*; look at retrieval\.rerank_api_base; tried once\.",
    ) as raised:
        impatient("http://127.0.0.1:9").scores("red", TEXTS)
    assert str(raised.value).endswith(". Search again later")
    assert "embed" not in str(raised.value)


def test_a_server_that_drips_is_given_up_after_the_time_out() -> None:
    with raw_server(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n" + b" " * 5000, byte_every=0.2) as address:
        reranker = impatient(address, timeout_seconds=1)
        started = time.monotonic()
        with pytest.raises(ProviderError, match=r"did not finish its answer within 1 s; tried once\. Search again later"):
            reranker.scores("red", TEXTS)
    assert time.monotonic() - started < 60  # the whole answer would take 1,000


def test_a_refusal_without_a_word_is_a_failure_of_the_moment() -> None:
    with (
        raw_server(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n") as address,
        pytest.raises(ProviderError, match=r"failed \(status 400\) and did not say why; tried once\. Search again later"),
    ):
        impatient(address).scores("red", TEXTS)


def test_a_provider_that_litellm_does_not_know_is_told_with_the_form_to_write() -> None:
    settings = RetrievalConfig(rerank="litellm", rerank_model="nosuch/model")
    with pytest.raises(RerankingError, match=r"retrieval\.rerank_model nosuch/model: .*write provider/model"):
        reranker_for(settings).scores("red", TEXTS)


def test_no_text_is_no_request() -> None:
    with RerankServer() as server:
        assert reranker_on(server).scores("red", []).shape == (0,)
        assert not server.requests
