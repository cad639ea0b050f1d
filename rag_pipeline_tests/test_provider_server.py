"""What the tests of embedding providers may rely on: the server's wire formats, faults and book-keeping."""

from __future__ import annotations

import base64
import http.client
import json
import math
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from rag_pipeline_tests.provider_server import (
    Fault,
    ProviderProcess,
    ProviderServer,
    Request,
    cut,
    drop,
    echo_key,
    echo_key_429,
    html,
    no_usage,
    not_finite,
    nulls,
    provider_process,
    refuse_texts,
    short,
    shuffled,
    slow,
    status,
    wrong_width,
)

TEXTS = ["the cat sat", "a dog", "the cat slept here"]


@dataclass
class Answer:
    status: int
    content: bytes
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> Any:
        return json.loads(self.content)

    @property
    def vectors(self) -> list[Any]:
        return [row["embedding"] for row in self.body["data"]]


class Client:
    """One connection that is kept alive."""

    def __init__(self, address: str) -> None:
        self.connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=10)

    def receive(self) -> Answer:
        response = self.connection.getresponse()
        return Answer(response.status, response.read(), {name.lower(): value for name, value in response.getheaders()})

    def get(self, path: str) -> Answer:
        self.connection.request("GET", path)
        return self.receive()

    def send(self, path: str, body: Any, key: str | None = None) -> None:
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self.connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body), headers)

    def post(self, path: str, body: Any, key: str | None = None) -> Answer:
        self.send(path, body, key)
        return self.receive()

    def openai(self, texts: Any, key: str | None = None, **arguments: Any) -> Answer:
        return self.post("/v1/embeddings", {"model": "text-embedding-3-small", "input": texts, **arguments}, key)

    def voyage(self, texts: Any, key: str | None = None, **arguments: Any) -> Answer:
        return self.post("/v1/embeddings", {"model": "voyage-3.5", "input": texts, **arguments}, key)

    def ollama(self, texts: Any, key: str | None = None, **arguments: Any) -> Answer:
        return self.post("/api/embed", {"model": "nomic-embed-text", "input": texts, **arguments}, key)


Clients = Callable[[ProviderServer | ProviderProcess], Client]


@pytest.fixture
def clients() -> Iterator[Clients]:
    """Makes clients that are closed when the test ends."""
    made: list[Client] = []

    def client(server: ProviderServer | ProviderProcess) -> Client:
        made.append(Client(server.ollama_base))
        return made[-1]

    yield client
    for one in made:
        one.connection.close()


def cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True)) / (math.hypot(*one) * math.hypot(*other))


class TestVectors:
    def test_a_text_has_one_vector_in_every_process_and_width(self) -> None:
        server = ProviderServer(dimensions=8)
        assert server.vector_of("the cat") == server.vector_of("the cat")
        assert server.vector_of("the cat", 16)[:8] == server.vector_of("the cat")
        assert server.vector_of("the cat", 3) == [-1.21826171875, -1.81787109375, 0.21826171875]

    def test_texts_that_share_words_are_near_and_none_are_the_same(self) -> None:
        vector = ProviderServer().vector_of
        near = cosine(vector("the cat sat down"), vector("Down sat the dog."))
        far = cosine(vector("the cat sat down"), vector("prices rise in winter"))
        assert near > 0.5 > 0.3 > abs(far)
        assert len({tuple(vector(text)) for text in ("cat sat", "sat cat", "Cat sat", "cat sat.")}) == 4

    @pytest.mark.parametrize("text", ["cat", "!!!", "", " ", "猫", "\ud800", "cat " * 5000])
    @pytest.mark.parametrize("width", [1, 64])
    def test_no_vector_is_zero(self, text: str, width: int) -> None:
        vector = ProviderServer().vector_of(text, width)
        assert len(vector) == width
        assert any(vector)

    def test_vectors_are_not_normalised(self) -> None:
        lengths = [math.hypot(*ProviderServer().vector_of(text)) for text in TEXTS]
        assert min(lengths) > 2
        assert len(set(lengths)) == len(TEXTS)


class TestOpenAI:
    def test_answers_rows_with_index_model_and_usage(self, clients: Clients) -> None:
        with ProviderServer() as server:
            answer = clients(server).openai(TEXTS)
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        assert answer.vectors == [server.vector_of(text) for text in TEXTS]
        assert [(row["object"], row["index"]) for row in answer.body["data"]] == [("embedding", n) for n in range(3)]
        assert answer.body["object"] == "list"
        assert answer.body["model"] == "text-embedding-3-small"
        assert answer.body["usage"] == {"prompt_tokens": 9, "total_tokens": 9}

    def test_takes_one_text(self, clients: Clients) -> None:
        with ProviderServer() as server:
            assert clients(server).openai("a dog").vectors == [server.vector_of("a dog")]
            assert server.requests[0].texts == ["a dog"]

    def test_dimensions_chooses_the_width(self, clients: Clients) -> None:
        with ProviderServer(dimensions=64) as server:
            assert clients(server).openai(["a dog"], dimensions=5).vectors == [server.vector_of("a dog", 5)]

    def test_base64_is_little_endian_float32_of_the_same_numbers(self, clients: Clients) -> None:
        with ProviderServer() as server:
            row = clients(server).openai(["a dog"], encoding_format="base64").vectors[0]
        assert list(struct.unpack("<64f", base64.b64decode(row))) == server.vector_of("a dog")

    @pytest.mark.parametrize(
        "body",
        [
            {"model": "m", "input": ["fine", " \n"]},
            {"model": "m", "input": ""},
            {"model": "m", "input": []},
            {"model": "m"},
            {"model": "m", "input": [[1, 2], [3]]},
            {"model": "m", "input": ["a"] * 2049},
            {"model": "m", "input": ["a"], "dimensions": 0},
            {"model": "m", "input": ["a"], "dimensions": True},
            {"model": "m", "input": ["a"], "encoding_format": "hex"},
            {"input": ["a"]},
            ["a"],
            b"not json",
        ],
        ids=lambda body: repr(body)[:50],
    )
    def test_refuses_a_wrong_body(self, clients: Clients, body: Any) -> None:
        with ProviderServer() as server:
            client = clients(server)
            answer = client.post("/v1/embeddings", body)
            assert client.openai(["a"]).status == 200
            assert server.answered_texts == {"a": 1}
        assert answer.status == 400
        assert answer.body["error"]["message"]
        assert answer.body["error"]["type"] == "invalid_request_error"
        assert set(answer.body["error"]) == {"message", "type", "param", "code"}


class TestVoyage:
    def test_answers_rows_and_total_tokens_alone(self, clients: Clients) -> None:
        with ProviderServer() as server:
            answer = clients(server).voyage(TEXTS, input_type="document", output_dimension=5, truncation=True)
            assert server.requests[0].provider == "voyage"
        assert answer.vectors == [server.vector_of(text, 5) for text in TEXTS]
        assert [row["index"] for row in answer.body["data"]] == [0, 1, 2]
        assert answer.body["usage"] == {"total_tokens": 9}

    def test_base64_is_honoured(self, clients: Clients) -> None:
        with ProviderServer() as server:
            row = clients(server).voyage(["a dog"], encoding_format="base64").vectors[0]
        assert list(struct.unpack("<64f", base64.b64decode(row))) == server.vector_of("a dog")

    def test_is_known_by_its_arguments_whatever_the_model(self, clients: Clients) -> None:
        with ProviderServer() as server:
            clients(server).openai(["a"], input_type="query")
            clients(server).openai(["a"])
            assert [request.provider for request in server.requests] == ["voyage", "openai"]

    @pytest.mark.parametrize(
        "arguments",
        [
            {"encoding_format": "float"},
            {"dimensions": 5},
            {"input_type": "passage"},
            {"output_dimension": -1},
            {"input": [""]},
            {"input": ["a"] * 1001},
        ],
        ids=lambda arguments: repr(arguments)[:40],
    )
    def test_refuses_what_voyage_does_not_take(self, clients: Clients, arguments: dict[str, Any]) -> None:
        with ProviderServer() as server:
            answer = clients(server).voyage(arguments.pop("input", ["a"]), **arguments)
        assert answer.status == 400
        assert list(answer.body) == ["detail"]
        assert answer.body["detail"]


class TestOllama:
    def test_answers_embeddings_and_prompt_eval_count(self, clients: Clients) -> None:
        with ProviderServer() as server:
            answer = clients(server).ollama(TEXTS)
            assert server.requests[0].provider == "ollama"
        assert answer.body["embeddings"] == [server.vector_of(text) for text in TEXTS]
        assert answer.body["model"] == "nomic-embed-text"
        assert answer.body["prompt_eval_count"] == 9

    def test_dimensions_chooses_the_width(self, clients: Clients) -> None:
        with ProviderServer() as server:
            assert clients(server).ollama(["a dog"], dimensions=5).body["embeddings"] == [server.vector_of("a dog", 5)]

    def test_errors_are_a_text(self, clients: Clients) -> None:
        with ProviderServer(faults=[status(404, 'model "x" not found')]) as server:
            client = clients(server)
            assert client.ollama(["a"]).body == {"error": 'model "x" not found'}
            assert isinstance(client.ollama([" "]).body["error"], str)

    def test_shuffled_rows_without_index_fail_the_test_that_asks_for_them(
        self, clients: Clients, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with (
            pytest.raises(ValueError, match="no index"),
            ProviderServer(faults=[shuffled()]) as server,
            pytest.raises((http.client.HTTPException, ConnectionError)),
        ):
            clients(server).ollama(TEXTS)
        assert "no index" in capsys.readouterr().err


class TestKey:
    @pytest.mark.parametrize("name", ["openai", "voyage", "ollama"])
    def test_a_request_without_the_right_key_is_refused(self, clients: Clients, name: str) -> None:
        with ProviderServer(key="sk-right") as server:
            post = getattr(clients(server), name)
            assert [post(["a"], key=key).status for key in (None, "sk-wrong", "sk-right")] == [401, 401, 200]
            assert [request.key for request in server.requests] == [None, "sk-wrong", "sk-right"]
            assert server.answered_texts == {"a": 1}

    def test_without_a_key_every_request_is_served(self, clients: Clients) -> None:
        with ProviderServer() as server:
            assert clients(server).openai(["a"], key="sk-any").status == 200


class TestFaults:
    def test_a_sequence_is_used_up_one_request_each(self, clients: Clients) -> None:
        faults = [status(500), None, status(429)]
        with ProviderServer(faults=faults) as server:
            client = clients(server)
            assert [client.openai(["a"]).status for _ in range(5)] == [500, 200, 429, 200, 200]
            assert [request.fault for request in server.requests] == [*faults, None, None]
            assert [request.status for request in server.requests] == [500, 200, 429, 200, 200]
            assert server.answered_texts == {"a": 3}

    def test_requests_for_other_paths_use_up_no_fault(self, clients: Clients) -> None:
        with ProviderServer(faults=[status(500)]) as server:
            client = clients(server)
            assert client.post("/v1/chat/completions", {"model": "m"}).status == 404
            assert client.openai(["a"]).status == 500

    def test_a_callable_decides_for_each_request(self, clients: Clients) -> None:
        def decide(request: Request) -> Fault | None:
            return status(503) if request.number == 2 and request.texts == ["b"] else None

        with ProviderServer(faults=decide) as server:
            client = clients(server)
            assert [client.openai([text]).status for text in "abb"] == [200, 503, 200]

    def test_an_exception_in_the_callable_fails_the_test(self, clients: Clients, capsys: pytest.CaptureFixture[str]) -> None:
        def decide(request: Request) -> Fault | None:
            raise AssertionError(f"{request.texts} should not come")

        with (
            pytest.raises(AssertionError, match="should not come"),
            ProviderServer(faults=decide) as server,
            pytest.raises((http.client.HTTPException, ConnectionError)),
        ):
            clients(server).openai(["a"])
        assert "should not come" in capsys.readouterr().err

    def test_texts_can_be_refused_in_whatever_batch_they_come(self, clients: Clients) -> None:
        with ProviderServer(faults=refuse_texts(lambda text: "bad" in text, 422, "not this one")) as server:
            client = clients(server)
            answers = [client.openai(texts) for texts in (["a", "bad"], ["a"], ["bad"])]
            assert [answer.status for answer in answers] == [422, 200, 422]
            assert answers[0].body["error"]["message"] == "not this one"
            assert server.answered_texts == {"a": 1}

    @pytest.mark.parametrize(
        ("fault", "kind", "code"),
        [
            (status(400), "invalid_request_error", None),
            (status(400, code_name="context_length_exceeded"), "invalid_request_error", "context_length_exceeded"),
            (status(401), "invalid_request_error", "invalid_api_key"),
            (status(429), "requests", "rate_limit_exceeded"),
            (status(429, code_name="insufficient_quota"), "insufficient_quota", "insufficient_quota"),
            (status(500), "server_error", None),
        ],
    )
    def test_an_error_has_message_type_and_code(self, clients: Clients, fault: Fault, kind: str, code: str | None) -> None:
        with ProviderServer(faults=[replace(fault, message="told so")]) as server:
            answer = clients(server).openai(["a"])
        assert answer.status == fault.status
        assert answer.body["error"] == {"message": "told so", "type": kind, "param": None, "code": code}
        assert "retry-after" not in answer.headers

    @pytest.mark.parametrize("moment", ["7", "Wed, 21 Oct 2026 07:28:00 GMT"])
    def test_retry_after_is_sent_as_it_is(self, clients: Clients, moment: str) -> None:
        with ProviderServer(faults=[status(429, retry_after=moment)]) as server:
            assert clients(server).openai(["a"]).headers["retry-after"] == moment

    def test_an_error_can_have_a_body_of_its_own(self, clients: Clients) -> None:
        page = "<html>502 Bad Gateway</html>"
        with ProviderServer(faults=[status(502, body=page), status(500, body={"oops": 1}), status(503, body="")]) as server:
            client = clients(server)
            answers = [client.openai(["a"]) for _ in range(3)]
        assert (answers[0].status, answers[0].content.decode()) == (502, page)
        assert answers[0].headers["content-type"].startswith("text/html")
        assert (answers[1].status, answers[1].body) == (500, {"oops": 1})
        assert (answers[2].status, answers[2].content) == (503, b"")

    def test_html_is_a_page_with_status_200(self, clients: Clients) -> None:
        with ProviderServer(faults=[html()]) as server:
            answer = clients(server).openai(["a"])
            assert server.answered_texts == {}
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/html")
        assert b"<html>" in answer.content

    def test_cut_ends_amid_the_body(self, clients: Clients) -> None:
        with ProviderServer(faults=[cut()]) as server:
            client = clients(server)
            with pytest.raises(http.client.IncompleteRead) as error:
                client.openai(["a"])
            assert len(error.value.partial) > 100
            assert error.value.expected is not None
            assert abs(len(error.value.partial) - error.value.expected) <= 1
            assert (server.requests[0].answered, server.requests[0].status, server.answered_texts) == (None, None, {})
            assert clients(server).openai(["a"]).status == 200

    def test_drop_closes_without_a_byte(self, clients: Clients) -> None:
        with ProviderServer(faults=[drop()]) as server:
            with pytest.raises(http.client.RemoteDisconnected):
                clients(server).openai(["a"])
            assert (server.requests[0].answered, server.answered_texts) == (None, {})
            assert clients(server).openai(["a"]).status == 200

    def test_slow_answers_later_and_properly(self, clients: Clients) -> None:
        with ProviderServer(faults=[slow(0.1)]) as server:
            client = clients(server)
            assert client.openai(["a"]).vectors == client.openai(["a"]).vectors
            late, usual = (request.answered - request.arrived for request in server.requests if request.answered)
        assert late >= 0.1 > usual

    def test_any_fault_can_be_slow(self, clients: Clients) -> None:
        with ProviderServer(faults=[replace(status(500), seconds=0.1)]) as server:
            began = time.monotonic()
            assert clients(server).openai(["a"]).status == 500
            assert time.monotonic() - began >= 0.1

    def test_shuffled_rows_keep_their_indices(self, clients: Clients) -> None:
        with ProviderServer(faults=[shuffled()]) as server:
            answer = clients(server).openai(TEXTS)
        rows = {row["index"]: row["embedding"] for row in answer.body["data"]}
        assert list(rows) == [2, 1, 0]
        assert [rows[index] for index in range(3)] == [server.vector_of(text) for text in TEXTS]

    @pytest.mark.parametrize("name", ["openai", "voyage", "ollama"])
    def test_short_leaves_the_last_row_out(self, clients: Clients, name: str) -> None:
        with ProviderServer(faults=[short()]) as server:
            answer = getattr(clients(server), name)(TEXTS)
            rows = answer.body["embeddings"] if name == "ollama" else answer.vectors
            assert rows == [server.vector_of(text) for text in TEXTS[:2]]
            assert server.answered_texts == {TEXTS[0]: 1, TEXTS[1]: 1}

    def test_wrong_width_ignores_what_was_asked_for(self, clients: Clients) -> None:
        with ProviderServer(faults=[wrong_width(7)]) as server:
            assert [len(vector) for vector in clients(server).openai(TEXTS, dimensions=5).vectors] == [7, 7, 7]
            assert server.answered_texts == {}

    def test_not_finite_is_a_literal_nan(self, clients: Clients) -> None:
        with ProviderServer(faults=[not_finite()]) as server:
            answer = clients(server).openai(TEXTS)
            assert server.answered_texts == {TEXTS[0]: 1, TEXTS[1]: 1}
        assert answer.content.count(b"NaN") == 1
        assert math.isnan(answer.vectors[-1][0])

    def test_not_finite_is_a_nan_in_base64_too(self, clients: Clients) -> None:
        with ProviderServer(faults=[not_finite()]) as server:
            row = clients(server).openai(["a"], encoding_format="base64").vectors[0]
        assert math.isnan(struct.unpack("<64f", base64.b64decode(row))[0])

    @pytest.mark.parametrize("encoding", ["float", "base64"])
    def test_nulls_stand_in_a_list(self, clients: Clients, encoding: str) -> None:
        with ProviderServer(faults=[nulls()]) as server:
            rows = clients(server).openai(["a", "b"], encoding_format=encoding).vectors
            assert server.answered_texts == {"a": 1}
        assert rows[-1] == [None, *server.vector_of("b")[1:]]

    def test_no_usage_leaves_the_counts_out(self, clients: Clients) -> None:
        with ProviderServer(faults=[no_usage()] * 3) as server:
            client = clients(server)
            assert "usage" not in client.openai(["a"]).body
            assert "usage" not in client.voyage(["a"]).body
            assert "prompt_eval_count" not in client.ollama(["a"]).body
            assert server.answered_texts == {"a": 3}

    def test_errors_can_repeat_the_key(self, clients: Clients) -> None:
        with ProviderServer(key="sk-secret", faults=[echo_key(), echo_key_429()] * 2) as server:
            client = clients(server)
            answers = [post(["a"], key="sk-secret") for post in [client.openai] * 2 + [client.ollama] * 2]
        assert [answer.status for answer in answers] == [401, 429, 401, 429]
        assert all("sk-secret" in answer.body["error"]["message"] for answer in answers[:2])
        assert all("sk-secret" in answer.body["error"] for answer in answers[2:])


class TestBooks:
    def test_a_request_is_recorded_as_it_came(self, clients: Clients) -> None:
        began = time.monotonic()
        with ProviderServer() as server:
            client = clients(server)
            client.openai(TEXTS, key="sk-1", user="me")
            client.ollama(["a"])
            first, second = server.requests
        assert (first.number, first.path, second.number, second.path) == (1, "/v1/embeddings", 2, "/api/embed")
        assert first.headers["authorization"] == "Bearer sk-1"
        assert first.headers["content-type"] == "application/json"
        assert first.body == {"model": "text-embedding-3-small", "input": TEXTS, "user": "me"}
        assert first.texts == TEXTS
        assert first.answered is not None
        assert second.answered is not None
        assert began <= first.arrived <= first.answered <= second.arrived <= second.answered <= time.monotonic()

    def test_the_books_are_complete_when_an_answer_has_been_read(self, clients: Clients) -> None:
        with ProviderServer() as server:
            client = clients(server)
            for number in range(1, 101):
                client.openai(["a", "a", "b"])
                assert server.answered_texts == {"a": 2 * number, "b": number}
                assert server.requests[-1].status == 200

    def test_requests_one_after_another_are_never_two_at_once(self, clients: Clients) -> None:
        with ProviderServer() as server:
            for _ in range(50):
                clients(server).openai(["a"])
            assert server.most_at_once == 1

    def test_requests_at_the_same_time_are_counted(self, clients: Clients) -> None:
        meeting = threading.Barrier(8)

        def decide(request: Request) -> None:
            meeting.wait(timeout=5)

        def embed(number: int) -> int:
            return clients(server).openai([f"text {number}"]).status

        with ProviderServer(faults=decide) as server, ThreadPoolExecutor(8) as threads:
            assert list(threads.map(embed, range(8))) == [200] * 8
            assert server.most_at_once == 8
            assert [request.number for request in server.requests] == list(range(1, 9))
            assert server.answered_texts == {f"text {number}": 1 for number in range(8)}

    def test_statistics_can_be_fetched_and_need_no_key(self, clients: Clients) -> None:
        with ProviderServer(key="sk-1", faults=[None, status(500), drop()]) as server:
            client = clients(server)
            client.openai(["a", "\ud800"], key="sk-1")
            client.openai(["a"], key="sk-1")
            with pytest.raises(http.client.RemoteDisconnected):
                client.openai(["a"], key="sk-1")
            for _ in range(2):
                assert client.get("/statistics").body == {
                    "requests": 3,
                    "answered_texts": {"a": 1, "\ud800": 1},
                    "most_at_once": 1,
                    "statuses": {"200": 1, "500": 1},
                }


class TestConnections:
    def test_one_connection_serves_many_requests_without_waiting(self, clients: Clients) -> None:
        with ProviderServer() as server:
            client = clients(server)
            client.openai(["a"])
            used = client.connection.sock
            assert used is not None
            took = []
            for _ in range(20):
                began = time.monotonic()
                client.openai(["a"])
                took.append(time.monotonic() - began)
            assert client.connection.sock is used
        # Delayed acknowledgements would make it 40 ms; the median leaves out what a busy machine adds.
        assert sorted(took)[10] < 0.03

    def test_delay_is_what_every_answer_takes(self, clients: Clients) -> None:
        with ProviderServer(delay=0.1, faults=[status(500)]) as server:
            client = clients(server)
            began = time.monotonic()
            assert (client.openai(["a"]).status, client.openai(["a"]).status) == (500, 200)
            assert time.monotonic() - began >= 0.2

    @pytest.mark.parametrize("reset", [False, True])
    @pytest.mark.parametrize("fault", [None, status(503, body="")], ids=["vectors", "empty body"])
    def test_a_client_that_vanishes_while_it_waits_is_no_error_and_got_nothing(
        self, clients: Clients, capsys: pytest.CaptureFixture[str], reset: bool, fault: Fault | None
    ) -> None:
        gone = threading.Event()

        def decide(request: Request) -> Fault | None:
            assert gone.wait(5)
            return fault if request.number == 1 else None

        with ProviderServer(faults=decide) as server:
            client = clients(server)
            client.send("/v1/embeddings", {"model": "m", "input": ["a"]})
            wait_until(lambda: server.under_way == 1)
            if reset:
                client.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.connection.close()
            gone.set()
            wait_until(lambda: server.under_way == 0)
            assert clients(server).openai(["b"]).status == 200
            assert server.answered_texts == {"b": 1}
            assert [request.status for request in server.requests] == [None, 200]
        assert capsys.readouterr().err == ""

    def test_a_client_that_vanishes_amid_its_request_is_no_error_and_no_request(
        self, clients: Clients, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with ProviderServer() as server:
            with socket.create_connection(("127.0.0.1", urlsplit(server.api_base).port or 0)) as connection:
                connection.sendall(b'POST /v1/embeddings HTTP/1.1\r\nContent-Length: 99\r\n\r\n{"model')
                connection.shutdown(socket.SHUT_WR)
                connection.settimeout(5)
                assert connection.recv(1) == b""
            assert server.requests == []
        assert capsys.readouterr().err == ""

    def test_the_end_is_quick_and_nothing_is_served_after_it(self, clients: Clients) -> None:
        with ProviderServer(faults=[None, slow(60)]) as server:
            client, waiting = clients(server), clients(server)
            assert client.openai(["a"]).status == 200
            waiting.send("/v1/embeddings", {"model": "m", "input": ["a"]})
            wait_until(lambda: len(server.requests) == 2)
            began = time.monotonic()
        assert time.monotonic() - began < 2
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            waiting.connection.getresponse()
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            client.openai(["a"])
        with pytest.raises(ConnectionRefusedError):
            clients(server).openai(["a"])

    def test_it_can_go_away_early_and_come_back_at_the_same_address(self, clients: Clients) -> None:
        with ProviderServer() as server:
            address = server.api_base
            server.close()
            with pytest.raises(ConnectionRefusedError):
                clients(server).openai(["a"])
        with ProviderServer(port=urlsplit(address).port or 0) as again:
            assert again.api_base == address
            assert clients(again).openai(["a"]).status == 200

    def test_there_is_no_address_before_the_block(self) -> None:
        with pytest.raises(RuntimeError, match="with"):
            _ = ProviderServer().api_base


KILLED_CLIENT = """
import http.client, json, sys
connection = http.client.HTTPConnection(sys.argv[1])
for number in range(1000):
    body = json.dumps({"model": "m", "input": [f"text {number}"]})
    connection.request("POST", "/v1/embeddings", body, {"Authorization": "Bearer sk-1"})
    connection.getresponse().read()
    print(number, flush=True)
"""


class TestProcess:
    def test_it_outlives_a_killed_client_and_tells_what_it_answered(self, clients: Clients) -> None:
        with provider_process(dimensions=5, delay=0.05, key="sk-1") as server:
            netloc = urlsplit(server.api_base).netloc
            with subprocess.Popen(
                [sys.executable, "-c", KILLED_CLIENT, netloc], stdout=subprocess.PIPE, text=True
            ) as client:
                assert client.stdout is not None
                read = [client.stdout.readline().strip() for _ in range(3)]
                client.send_signal(signal.SIGKILL)
            statistics = server.statistics()
            answer = clients(server).openai(["a dog"], key="sk-1")
        assert read == ["0", "1", "2"]
        assert {f"text {number}": 1 for number in read}.items() <= statistics["answered_texts"].items()
        assert len(statistics["answered_texts"]) <= statistics["requests"] <= 5
        assert statistics["statuses"] == {"200": len(statistics["answered_texts"])}
        assert statistics["most_at_once"] == 1
        assert answer.vectors == [ProviderServer(5).vector_of("a dog")]
        assert server.process.poll() is not None


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in 5 s"
        time.sleep(0.002)
