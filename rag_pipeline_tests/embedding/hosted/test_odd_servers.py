"""Servers and keys that are odd rather than down."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from rag_pipeline.embedding.hosted.background import run
from rag_pipeline.embedding.hosted.calls import CallError
from rag_pipeline.embedding.hosted.litellm_client import LiteLLMClient, _tokens
from rag_pipeline.errors import CredentialsError, EmbeddingError, ProviderError


@contextlib.contextmanager
def raw_server(answer: bytes, *, byte_every: float | None = None) -> Iterator[str]:
    """Answers every connection with these bytes, all at once or one by one."""
    listening = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):
                connection, _ = listening.accept()
                threading.Thread(target=answer_on, args=(connection,), daemon=True).start()

    def answer_on(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.recv(1 << 16)
            if byte_every is None:
                connection.sendall(answer)
                return
            for byte in answer:
                if over.wait(byte_every):
                    return
                connection.sendall(bytes([byte]))

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    finally:
        over.set()
        listening.close()


def ok(body: Any) -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(content)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + content


def client(address: str, timeout: float = 5) -> LiteLLMClient:
    return LiteLLMClient("openai", "stub", dimensions=4, ask_dimensions=False, api_base=address, timeout_seconds=timeout)


def failure(address: str, timeout: float = 5) -> CallError:
    with pytest.raises(CallError) as caught:
        run(client(address, timeout).request(["a"], "document"))
    return caught.value


def test_a_server_that_drips_is_given_up_after_the_time_out() -> None:
    client("http://127.0.0.1:9/v1").check_credentials()  # imports LiteLLM, which takes seconds
    with raw_server(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n" + b" " * 5000, byte_every=0.2) as address:
        started = time.monotonic()
        found = failure(address, timeout=1)
    assert time.monotonic() - started < 60  # the whole answer would take 1,000
    assert (found.kind, type(found.error)) == ("transient", ProviderError)
    assert "did not finish its answer within 1 s" in str(found)


@pytest.mark.parametrize("rows", [[1, 2, 3], "abc", [[1.0]], [None]])
def test_rows_that_are_no_rows_are_an_unusable_answer(rows: Any) -> None:
    with raw_server(ok({"object": "list", "model": "stub", "data": rows, "usage": {"total_tokens": 1}})) as address:
        found = failure(address)
    assert isinstance(found.error, (ProviderError, EmbeddingError))
    assert "\n" not in str(found)
    assert "has no attribute" not in str(found)


@pytest.mark.parametrize("key", ["sk-0123456789\n", " sk-0123456789", "sk-0123 456789", "sk-ü0123456789"])
def test_a_key_that_no_header_can_carry_is_refused_by_its_variable(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(CredentialsError, match="OPENAI_API_KEY holds white space") as caught:
        client("http://127.0.0.1:9/v1").check_credentials()
    assert key.strip() not in str(caught.value)


def test_an_address_where_nobody_listens_is_named() -> None:
    found = failure("http://127.0.0.1:9/v1")
    assert found.kind == "transient"
    assert "cannot be reached at http://127.0.0.1:9/v1" in str(found)
    assert "embedding.api_base" in str(found)


@pytest.mark.parametrize("count", [-1000, "x", 0, "0", "-3", "", None, True, [12], {"x": 1}, 10**400, "nan", "1e999"])
def test_counts_that_cannot_be_are_not_believed(count: Any) -> None:
    assert _tokens(SimpleNamespace(usage=SimpleNamespace(total_tokens=count))) is None
    assert _tokens(SimpleNamespace(usage=SimpleNamespace(total_tokens=count, prompt_tokens=3))) == 3
    assert _tokens(SimpleNamespace(usage=SimpleNamespace())) is None


@pytest.mark.parametrize(
    ("count", "tokens"), [(12, 12), ("12", 12), (" 12 ", 12), (12.0, 12), ("twelve", None), ([12], None)]
)
def test_vectors_are_kept_however_their_tokens_are_counted(count: Any, tokens: int | None) -> None:
    rows = [{"object": "embedding", "index": 0, "embedding": [1, 2, 3, 4]}]
    body = {"object": "list", "model": "stub", "data": rows, "usage": {"total_tokens": count}}
    with raw_server(ok(body)) as address:
        answer = run(client(address).request(["a"], "document"))
    assert (answer.vectors.tolist(), answer.tokens) == ([[1.0, 2.0, 3.0, 4.0]], tokens)
