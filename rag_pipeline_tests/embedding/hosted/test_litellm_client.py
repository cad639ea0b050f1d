"""One request through LiteLLM: what is sent, what is made of the answer, and what must never leave."""

from __future__ import annotations

import email.utils
import logging
import time
from typing import Any

import numpy as np
import pytest

from rag_pipeline.embedding.hosted.background import run
from rag_pipeline.embedding.hosted.calls import CallError, FailureKind, Purpose
from rag_pipeline.embedding.hosted.litellm_client import LiteLLMClient
from rag_pipeline.errors import CredentialsError, EmbeddingError, ProviderError, RagPipelineError
from rag_pipeline_tests.embedding.hosted.support import (
    KEY,
    KEY_VARIABLES,
    MODELS,
    NAMES,
    chain_of,
    client_of,
    tasks_left,
)
from rag_pipeline_tests.provider_server import (
    HTML_PAGE,
    OLLAMA_PATH,
    OPENAI_PATH,
    Fault,
    ProviderServer,
    cut,
    drop,
    echo_key,
    echo_key_429,
    html,
    no_usage,
    not_finite,
    nulls,
    short,
    shuffled,
    slow,
    status,
    wrong_width,
)

pytestmark = pytest.mark.filterwarnings("ignore:Item:UserWarning")

PROVIDERS = list(MODELS)
TEXTS = ["the kettle boils", "the cat", "rain"]


def failed(client: LiteLLMClient, purpose: Purpose = "document") -> CallError:
    with pytest.raises(CallError) as caught:
        run(client.request(TEXTS, purpose))
    return caught.value


def expected(server: ProviderServer, dimensions: int = 64) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.array([server.vector_of(text, dimensions) for text in TEXTS], dtype=np.float32)


@pytest.mark.parametrize(
    ("provider", "purpose", "path", "authorization", "body"),
    [
        ("openai", "document", OPENAI_PATH, f"Bearer {KEY}", {"dimensions": 32, "input_type": None}),
        ("voyage", "document", OPENAI_PATH, f"Bearer {KEY}", {"output_dimension": 32, "input_type": "document"}),
        ("voyage", "query", OPENAI_PATH, f"Bearer {KEY}", {"output_dimension": 32, "input_type": "query"}),
        ("ollama", "document", OLLAMA_PATH, None, {"dimensions": 32, "input_type": None}),
        ("litellm", "query", OPENAI_PATH, f"Bearer {KEY}", {"dimensions": 32, "input_type": None}),
    ],
)
def test_a_request_has_its_providers_form(
    provider: str, purpose: Purpose, path: str, authorization: str | None, body: dict[str, Any]
) -> None:
    with ProviderServer() as server:
        answer = run(client_of(provider, server, dimensions=32).request(TEXTS, purpose))
        assert np.array_equal(answer.vectors, expected(server, 32))
        assert answer.vectors.dtype == np.float32
        assert answer.tokens == 6
        (request,) = server.requests
    assert request.path == path
    assert request.headers.get("authorization") == authorization
    assert request.texts == TEXTS
    assert request.body["model"] == MODELS[provider].removeprefix("hosted_vllm/")
    assert {name: request.body.get(name) for name in body} == body


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_width_is_asked_for_unless_it_is_configured(provider: str) -> None:
    with ProviderServer() as server:
        run(client_of(provider, server, ask=False).request(TEXTS, "document"))
        (request,) = server.requests
    assert not {"dimensions", "output_dimension"} & set(request.body)


def test_a_model_that_litellm_does_not_know_is_asked_for_a_width_too() -> None:
    with ProviderServer() as server:
        client = LiteLLMClient(
            "openai", "our-own", dimensions=16, ask_dimensions=True, api_base=server.api_base, timeout_seconds=5
        )
        assert run(client.request(TEXTS, "document")).vectors.shape == (3, 16)
        assert server.requests[0].body["dimensions"] == 16


@pytest.mark.parametrize("provider", ["openai", "voyage", "litellm"])
def test_rows_in_any_order_come_back_in_the_order_of_their_texts(provider: str) -> None:
    with ProviderServer(faults=[shuffled()]) as server:
        assert np.array_equal(run(client_of(provider, server).request(TEXTS, "document")).vectors, expected(server))


@pytest.mark.parametrize("provider", ["openai", "voyage", "litellm"])
def test_tokens_that_nobody_tells_are_unknown(provider: str) -> None:
    with ProviderServer(faults=[no_usage()]) as server:
        assert run(client_of(provider, server).request(TEXTS, "document")).tokens is None


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("fault", [not_finite(), nulls()], ids=["NaN", "null"])
def test_a_number_that_is_none_is_nan_in_its_row_alone(provider: str, fault: Fault) -> None:
    with ProviderServer(faults=[fault]) as server:
        vectors = run(client_of(provider, server).request(TEXTS, "document")).vectors
        assert np.isfinite(vectors).all(axis=1).tolist() == [True, True, False]
        assert np.array_equal(vectors[:2], expected(server)[:2])


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_list_that_is_too_short_is_no_answer(provider: str) -> None:
    with ProviderServer(faults=[short()]) as server:
        failure = failed(client_of(provider, server))
        assert len(server.requests) == 1
    assert (failure.kind, type(failure.error)) == ("transient", ProviderError)
    assert str(failure) == f"{NAMES[provider]} answered 2 vectors for 3 texts"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_vectors_of_another_width_end_it_and_the_message_says_what_to_set(provider: str) -> None:
    with ProviderServer(faults=[wrong_width(48)]) as server:
        failure = failed(client_of(provider, server))
        assert len(server.requests) == 1
    assert (failure.kind, type(failure.error)) == ("terminal", EmbeddingError)
    assert f"{NAMES[provider]} answered vectors of 48 dimensions; expected 64" in str(failure)
    assert "embedding.dimensions" in str(failure)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{"embedding": [1, 2]}, {"embedding": [1, 2]}, {"embedding": [1, 2]}], "do not say which texts they are of"),
        ([{"index": 0, "embedding": [1, 2]}] * 3, "do not say which texts they are of"),
        ([{"index": place, "embedding": [1, 2][: place + 1]} for place in range(3)], "no vectors of one width"),
        ([{"index": place, "embedding": None} for place in range(3)], "no vectors of one width"),
        ([], "answered 0 vectors for 3 texts"),
    ],
)
def test_rows_that_fit_no_texts_are_no_answer(rows: list[dict[str, Any]], told: str) -> None:
    body = {"object": "list", "model": "our-model", "data": rows, "usage": {"prompt_tokens": 3, "total_tokens": 3}}
    with ProviderServer(faults=[status(200, body=body)]) as server:
        failure = failed(client_of("litellm", server, dimensions=None, ask=False))
    assert failure.kind == "transient"
    assert told in str(failure)


FREE_ACCOUNT = (
    "You have not yet added your payment method in the billing page and will have reduced rate limits of 3 RPM and 10K TPM."
)

FAILURES: list[tuple[Fault, FailureKind, type[RagPipelineError], str]] = [
    (status(401), "terminal", CredentialsError, "refused the key (status 401)"),
    (status(403), "terminal", CredentialsError, "refused the key (status 403)"),
    (status(404, "no such model"), "terminal", EmbeddingError, "is not known there (status 404): "),
    (status(402), "terminal", EmbeddingError, "wants to be paid first (status 402)"),
    (
        status(429, "You exceeded your current quota, please check your plan.", code_name="insufficient_quota"),
        "terminal",
        EmbeddingError,
        "wants to be paid first (status 429)",
    ),
    (status(429, "slow down"), "throttled", ProviderError, "is asked too often (status 429): "),
    (status(429, FREE_ACCOUNT), "throttled", ProviderError, "is asked too often (status 429): "),
    (status(400, "a text is empty"), "refused", EmbeddingError, "refused the request (status 400): "),
    (status(413), "refused", EmbeddingError, "refused the request (status 413)"),
    (status(422), "refused", EmbeddingError, "refused the request (status 422)"),
    (status(405), "terminal", EmbeddingError, "cannot be asked (status 405)"),
    (status(408), "transient", ProviderError, "failed: "),
    (status(500), "transient", ProviderError, "failed: "),
    (status(503), "transient", ProviderError, "failed: "),
    (status(502, body=HTML_PAGE), "transient", ProviderError, "failed: "),
    (html(), "transient", ProviderError, "failed: "),
    (cut(), "transient", ProviderError, "failed: "),
    (drop(), "transient", ProviderError, "failed: "),
    (echo_key(), "terminal", CredentialsError, "refused the key (status 401)"),
    (echo_key_429(), "throttled", ProviderError, "is asked too often (status 429)"),
]


def name_of(value: object) -> str | None:
    if not isinstance(value, Fault):
        return None
    return f"{value.status} {value.message[:20]}" if value.kind == "status" else f"{value.kind} {value.status}"


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("fault", "kind", "error", "told"), FAILURES, ids=name_of)
def test_each_failure_has_its_kind_is_tried_once_and_tells_no_secret(
    provider: str,
    fault: Fault,
    kind: FailureKind,
    error: type[RagPipelineError],
    told: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with ProviderServer(faults=[fault]) as server:
        failure = failed(client_of(provider, server))
        assert len(server.requests) == 1, "LiteLLM and the clients below it try nothing again by themselves"
    assert failure.kind == kind
    assert type(failure.error) is error
    message = str(failure)
    assert message == str(failure.error)
    assert message.startswith(f"{NAMES[provider]} {told}")
    assert "\n" not in message
    assert "litellm." not in message
    assert "Exception" not in message
    assert "<" not in message.replace("<ContentLengthError", "")
    if fault.kind == "status" and fault.body is None and provider != "openai":
        assert message.split(": ", 1)[1].startswith(fault.message), "what the provider said, without its JSON"
    links = list(chain_of(failure)) + list(chain_of(failure.error))
    assert {type(link) for link in links} <= {CallError, error}, "nothing of LiteLLM's hangs on our errors"
    assert all(KEY not in str(link) for link in links)
    assert [record for record in caplog.records if KEY in record.getMessage()] == []


def test_a_refused_key_names_the_variable_to_look_at() -> None:
    with ProviderServer(key="another", faults=[None, None]) as server:
        for provider, variable in (("openai", "OPENAI_API_KEY"), ("voyage", "VOYAGE_API_KEY")):
            assert str(failed(client_of(provider, server))).endswith(f"look at the environment variable {variable}")


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("code", "retry_after", "seconds"),
    [
        (429, "7", 7.0),
        (429, "0.5", 0.5),
        (429, "0", 0.0),
        (429, None, None),
        (429, "date", 30.0),
        (429, "soon", None),
        (429, "nan", None),
        (429, "-3", 0.0),
        (429, "1e300", 86_400.0),
        (503, "7", 7.0),
    ],
)
def test_how_long_to_wait_is_read_as_seconds_or_as_a_date(
    provider: str, code: int, retry_after: str | None, seconds: float | None
) -> None:
    header = email.utils.formatdate(time.time() + 30, usegmt=True) if retry_after == "date" else retry_after
    with ProviderServer(faults=[status(code, retry_after=header)]) as server:
        found = failed(client_of(provider, server)).retry_after
    if seconds is None or found is None:
        assert found is seconds
    else:
        assert found == pytest.approx(seconds, abs=3 if retry_after == "date" else 0)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_answer_that_takes_too_long_is_not_waited_for(provider: str) -> None:
    with ProviderServer(faults=[slow(60)]) as server:
        client = client_of(provider, server, timeout=0.2)
        client.check_credentials()  # imports LiteLLM
        begun = time.monotonic()
        failure = failed(client)
        assert time.monotonic() - begun < 30
        assert len(server.requests) == 1
    assert failure.kind == "transient"
    assert "timed out" in str(failure)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_server_that_is_not_there_may_be_there_later(provider: str) -> None:
    with ProviderServer() as server:
        client = client_of(provider, server)
        client.check_credentials()  # imports LiteLLM
    failure = failed(client)
    assert (failure.kind, type(failure.error)) == ("transient", ProviderError)
    assert "onnect" in str(failure)
    assert "ssl" not in str(failure)


def test_a_provider_that_litellm_does_not_know_ends_it_at_once() -> None:
    client = LiteLLMClient("litellm", "nonsense/model", dimensions=8, ask_dimensions=False, api_base=None, timeout_seconds=1)
    failure = failed(client)
    assert (failure.kind, type(failure.error)) == ("terminal", EmbeddingError)
    assert "embedding.model nonsense/model" in str(failure)


def test_after_all_failures_nothing_is_left_running() -> None:
    with ProviderServer(faults=[drop(), cut(), status(500), html()] * 4) as server:
        for provider in PROVIDERS:
            for _ in range(4):
                failed(client_of(provider, server))
    assert tasks_left() == []


@pytest.mark.parametrize(
    ("provider", "model", "variable"),
    [
        ("openai", "text-embedding-3-small", "OPENAI_API_KEY"),
        ("voyage", "voyage-4", "VOYAGE_API_KEY"),
        ("litellm", "cohere/embed-v4.0", "COHERE_API_KEY"),
        ("litellm", "openai/our-own", "OPENAI_API_KEY"),
    ],
)
def test_a_missing_key_is_named_before_anything_is_asked(
    provider: str, model: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*KEY_VARIABLES, "COHERE_API_KEY", "CO_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with ProviderServer() as server:
        client = LiteLLMClient(
            provider, model, dimensions=64, ask_dimensions=False, api_base=server.api_base, timeout_seconds=5
        )
        with pytest.raises(CredentialsError, match=rf"embedding.provider {provider}: the environment variable .*{variable}"):
            client.check_credentials()
        assert server.requests == []


@pytest.mark.parametrize("provider", ["ollama", "litellm"])
def test_models_on_ones_own_machine_need_no_key(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEY_VARIABLES:
        monkeypatch.delenv(name)
    with ProviderServer() as server:
        client = client_of(provider, server)
        client.check_credentials()
        run(client.request(TEXTS, "document"))


def test_the_key_is_read_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    with ProviderServer() as server:
        client = client_of("openai", server)
        for key in ("first-key", "second-key"):
            monkeypatch.setenv("OPENAI_API_KEY", key)
            run(client.request(TEXTS, "document"))
        assert [request.key for request in server.requests] == ["first-key", "second-key"]


def test_any_name_that_voyage_documents_holds_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VOYAGE_API_KEY")
    monkeypatch.setenv("VOYAGE_AI_TOKEN", "third-name")
    with ProviderServer() as server:
        client = client_of("voyage", server)
        client.check_credentials()
        run(client.request(TEXTS, "document"))
        assert server.requests[0].key == "third-name"
