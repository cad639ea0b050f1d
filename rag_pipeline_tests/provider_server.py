"""An HTTP server on this machine that answers as the embedding APIs of OpenAI, Voyage and Ollama do, faults included.

``POST /v1/embeddings`` is OpenAI's, or Voyage's where the model's name starts with "voyage" or the body has an argument
that only Voyage knows; ``POST /api/embed`` is Ollama's. Bodies, limits and refusals follow the providers:
https://platform.openai.com/docs/api-reference/embeddings, https://docs.voyageai.com/reference/embeddings-api,
https://github.com/ollama/ollama/blob/main/docs/api.md. Voyage takes no ``encoding_format`` but "base64" and none of the
arguments it does not list, and reports ``total_tokens`` alone.

``python -m rag_pipeline_tests.provider_server`` serves in a process of its own, `provider_process` starts and ends one, and
``GET /statistics`` tells what it answered.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import select
import socket
import socketserver
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

OPENAI_PATH = "/v1/embeddings"
OLLAMA_PATH = "/api/embed"
VOYAGE_ARGUMENTS = {"input", "model", "input_type", "truncation", "output_dimension", "output_dtype", "encoding_format"}
MOST_TEXTS = {"openai": 2048, "voyage": 1000}
"""How many texts a request may hold."""

HTML_PAGE = "<!DOCTYPE html><html><head><title>Sign in</title></head><body><h1>Sign in to the network</h1></body></html>"

Kind = Literal["slow", "status", "echo_key", "html", "cut", "drop", "shuffled", "short", "width", "nan", "null", "no_usage"]


@dataclass(frozen=True)
class Fault:
    """What is wrong with one answer; made by the functions below. ``seconds`` delays an answer of any kind."""

    kind: Kind
    status: int = 200
    message: str = ""
    retry_after: str | None = None
    body: str | Mapping[str, Any] | None = None
    code_name: str | None = None
    width: int | None = None
    seconds: float = 0.0


def status(
    code: int,
    message: str = "the server could not answer",
    retry_after: str | None = None,
    body: str | Mapping[str, Any] | None = None,
    code_name: str | None = None,
) -> Fault:
    """An error in the provider's own JSON form, or with the given body; retry_after is seconds or an HTTP date."""
    return Fault("status", code, message, retry_after, body, code_name)


def html() -> Fault:
    """Status 200 and a HTML page, as a captive portal or a wrong address answers."""
    return Fault("html")


def cut() -> Fault:
    """All headers and half of the body; then the connection is closed."""
    return Fault("cut")


def drop() -> Fault:
    """The connection is closed without an answer."""
    return Fault("drop")


def slow(seconds: float) -> Fault:
    """A proper answer, so many seconds later than others."""
    return Fault("slow", seconds=seconds)


def shuffled() -> Fault:
    """Rows in reverse order, each with its right index. Ollama's rows have no index: such a request fails the test."""
    return Fault("shuffled")


def short() -> Fault:
    """The last text's row is missing."""
    return Fault("short")


def wrong_width(width: int) -> Fault:
    """All vectors have this many dimensions, whatever was asked for."""
    return Fault("width", width=width)


def not_finite() -> Fault:
    """The last vector's first number is NaN: the literal NaN, which JSON does not know, or the float32 in base64."""
    return Fault("nan")


def nulls() -> Fault:
    """The last vector's first number is null; that vector is a list also where base64 was asked for."""
    return Fault("null")


def no_usage() -> Fault:
    """A proper answer that does not tell how many tokens it took."""
    return Fault("no_usage")


def echo_key() -> Fault:
    """401 whose message holds the key that the client sent."""
    return Fault("echo_key", 401, "Incorrect API key provided: {key}.")


def echo_key_429() -> Fault:
    """429 whose message holds the key that the client sent."""
    return Fault("echo_key", 429, "Rate limit reached for requests with the key {key}.")


@dataclass
class Request:
    """One request, as it was read; times in seconds of the monotonic clock.

    ``answered`` and ``status`` stay None until an answer was sent in full, so they do when the client had gone.
    """

    number: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    arrived: float
    answered: float | None = None
    status: int | None = None
    fault: Fault | None = None

    @property
    def texts(self) -> list[str]:
        given = self.body.get("input", [])
        return [text for text in (given if isinstance(given, list) else [given]) if isinstance(text, str)]

    @property
    def key(self) -> str | None:
        """The key after ``Authorization: Bearer``."""
        scheme, _, key = self.headers.get("authorization", "").partition(" ")
        return key if scheme.lower() == "bearer" and key else None

    @property
    def provider(self) -> Literal["openai", "voyage", "ollama"]:
        """Whose manners the request has."""
        if self.path == OLLAMA_PATH:
            return "ollama"
        only_voyage = VOYAGE_ARGUMENTS - {"input", "model", "encoding_format"}
        return "voyage" if str(self.body.get("model", "")).startswith("voyage") or only_voyage & set(self.body) else "openai"


def refuse_texts(
    predicate: Callable[[str], bool], status_code: int = 400, message: str = "the input was refused"
) -> Callable[[Request], Fault | None]:
    """Refuse every request that holds such a text, as often as it comes."""

    def refusal(request: Request) -> Fault | None:
        return status(status_code, message) if any(predicate(text) for text in request.texts) else None

    return refusal


@lru_cache(maxsize=16384)
def _direction(word: str, dimensions: int) -> tuple[int, ...]:
    return struct.unpack(f"{dimensions}b", hashlib.shake_128(word.encode("utf-8", "surrogatepass")).digest(dimensions))


def _vector(text: str, dimensions: int) -> list[float]:
    """The sum of the words' hashed directions and a sixteenth of the text's own, which tells texts of the same words apart.

    All numbers are multiples of 1/2048, so float32 (hence base64) holds them exactly up to some 8,000 words.
    """
    words = [_direction(word, dimensions) for word in re.findall(r"\w+", text.lower())]
    sums = map(sum, zip(*words, strict=True)) if words else [0] * dimensions
    numbers = [16 * total + own for total, own in zip(sums, _direction("\n" + text, dimensions), strict=True)]
    return [number / 2048 for number in numbers] if any(numbers) else [1.0] + [0.0] * (dimensions - 1)


@dataclass(frozen=True)
class _Answer:
    status: int
    content: bytes
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    """The texts whose vectors are in the answer, and sound."""


def _refusal(request: Request) -> Fault | None:
    """What the provider itself finds wrong with the request's body."""
    body, provider = request.body, request.provider
    given = body.get("input")
    width_name = "output_dimension" if provider == "voyage" else "dimensions"
    width = body.get(width_name)
    encoding = body.get("encoding_format")
    if not isinstance(body.get("model"), str) or not body["model"]:
        return status(400, "you must provide a model parameter")
    if not given or not isinstance(given, (str, list)) or (isinstance(given, list) and len(request.texts) < len(given)):
        return status(400, "'$.input' is invalid: this server takes a text or a list of texts, none of them empty.")
    if any(not text.strip() for text in request.texts):
        return status(400, "'$.input' is invalid. Please check the API reference.")
    if len(request.texts) > MOST_TEXTS.get(provider, sys.maxsize):
        return status(400, f"'$.input' is invalid: at most {MOST_TEXTS[provider]} texts, not {len(request.texts)}.")
    if width is not None and (not isinstance(width, int) or isinstance(width, bool) or width < 1):
        return status(400, f"Invalid value for '{width_name}': {width!r}.")
    if provider == "voyage":
        if unknown := sorted(set(body) - VOYAGE_ARGUMENTS):
            return status(400, f"Argument '{unknown[0]}' is not supported by our API.")
        if encoding not in (None, "base64"):
            return status(400, f"Value '{encoding}' for argument 'encoding_format' is not valid; accepted: 'base64'.")
        if body.get("input_type") not in (None, "query", "document"):
            return status(400, f"Value '{body['input_type']}' for argument 'input_type' is not valid.")
    elif provider == "openai" and encoding not in (None, "float", "base64"):
        return status(400, f"Invalid value for 'encoding_format': {encoding!r}.")
    return None


def _error(request: Request, fault: Fault) -> _Answer:
    """An error in the form of the request's provider."""
    headers = {} if fault.retry_after is None else {"Retry-After": fault.retry_after}
    if isinstance(fault.body, str):
        kind = "text/html" if fault.body.lstrip().startswith("<") else "text/plain"
        return _Answer(fault.status, fault.body.encode(), f"{kind}; charset=utf-8", headers)
    message = fault.message.replace("{key}", request.key or "") if fault.kind == "echo_key" else fault.message
    usual_code = {401: "invalid_api_key", 404: "not_found", 429: "rate_limit_exceeded"}
    code = fault.code_name or usual_code.get(fault.status)
    kind = "server_error" if fault.status >= 500 else "requests" if fault.status == 429 else "invalid_request_error"
    shapes: dict[str, Mapping[str, Any]] = {
        "openai": {
            "error": {
                "message": message,
                "type": "insufficient_quota" if code == "insufficient_quota" else kind,
                "param": None,
                "code": code,
            }
        },
        "voyage": {"detail": message},
        "ollama": {"error": message},
    }
    body = fault.body if fault.body is not None else shapes[request.provider]
    return _Answer(fault.status, json.dumps(body).encode(), headers=headers)


def _encoded(vector: list[Any], encoding: object) -> str | list[Any]:
    """A row's vector: base64 of little-endian float32, or the list itself."""
    if encoding != "base64" or None in vector:
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _embeddings(request: Request, dimensions: int) -> _Answer:
    """The vectors of the request's texts, spoiled as its fault says."""
    body, texts, kind = request.body, request.texts, request.fault.kind if request.fault else None
    width = body.get("output_dimension" if request.provider == "voyage" else "dimensions") or dimensions
    if kind == "width" and request.fault and request.fault.width:
        width = request.fault.width
    vectors: list[list[Any]] = [_vector(text, width) for text in texts]
    sound = texts
    if kind in ("nan", "null"):
        vectors[-1][0] = float("nan") if kind == "nan" else None
        sound = texts[:-1]
    elif kind == "short":
        vectors.pop()
        sound = texts[:-1]
    elif kind == "width":
        sound = []
    words = sum(len(text.split()) for text in texts)
    content: dict[str, Any]
    if request.provider == "ollama":
        if kind == "shuffled":
            raise ValueError("shuffled() has no meaning for Ollama, whose rows have no index")
        content = {"model": body["model"], "embeddings": vectors, "total_duration": 14_143_917, "load_duration": 1_019_500}
        usage: dict[str, Any] = {"prompt_eval_count": words}
    else:
        encoding = body.get("encoding_format")
        rows = [
            {"object": "embedding", "index": index, "embedding": _encoded(vector, encoding)}
            for index, vector in enumerate(vectors)
        ]
        content = {"object": "list", "data": rows[::-1] if kind == "shuffled" else rows, "model": body["model"]}
        counts = {"prompt_tokens": words, "total_tokens": words}
        usage = {"usage": {"total_tokens": words} if request.provider == "voyage" else counts}
    return _Answer(200, json.dumps(content if kind == "no_usage" else {**content, **usage}).encode(), texts=tuple(sound))


def _answer(request: Request, dimensions: int, key: str | None) -> _Answer:
    if request.path not in (OPENAI_PATH, OLLAMA_PATH):
        return _error(request, status(404, f"Invalid URL ({request.path})"))
    if request.fault and request.fault.kind in ("status", "echo_key"):
        return _error(request, request.fault)
    if request.fault and request.fault.kind == "html":
        return _Answer(200, HTML_PAGE.encode(), "text/html; charset=utf-8")
    if key is not None and request.key != key:
        return _error(request, status(401, "You didn't provide a valid API key."))
    refusal = _refusal(request)
    return _error(request, refusal) if refusal else _embeddings(request, dimensions)


class _Ledger:
    """What came and what was answered.

    The last byte of an answer is sent under the lock, so whoever has read an answer and then looks here finds it entered.
    """

    def __init__(self, faults: Sequence[Fault | None] | Callable[[Request], Fault | None]) -> None:
        self.lock = threading.Lock()
        self.requests: list[Request] = []
        self.answered_texts: Counter[str] = Counter()
        self.most_at_once = 0
        self.under_way: set[int] = set()
        self._decide = faults if callable(faults) else None
        self._queue = iter(() if callable(faults) else tuple(faults))

    def enter(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Request:
        embeds = path in (OPENAI_PATH, OLLAMA_PATH)
        with self.lock:
            request = Request(len(self.requests) + 1, path, headers, body, time.monotonic())
            self.requests.append(request)
            self.under_way.add(request.number)
            self.most_at_once = max(self.most_at_once, len(self.under_way))
            if embeds:
                request.fault = next(self._queue, None)
        return request

    def decide(self, request: Request) -> None:
        """Outside the lock, so that the callable may wait for other requests and look at the server."""
        if self._decide and request.path in (OPENAI_PATH, OLLAMA_PATH):
            request.fault = self._decide(request)

    def leave(self, request: Request) -> None:
        with self.lock:
            self.under_way.discard(request.number)

    def complete(self, request: Request, answer: _Answer, send_the_rest: Callable[[], object]) -> None:
        with self.lock:
            send_the_rest()
            request.answered, request.status = time.monotonic(), answer.status
            self.answered_texts.update(answer.texts)
            self.under_way.discard(request.number)

    def statistics(self) -> dict[str, Any]:
        with self.lock:
            return {
                "requests": len(self.requests),
                "answered_texts": dict(self.answered_texts),
                "most_at_once": self.most_at_once,
                "statuses": Counter(str(request.status) for request in self.requests if request.status is not None),
            }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, provider: ProviderServer, port: int) -> None:
        self.provider = provider
        self.closing = threading.Event()
        self.failures: list[BaseException] = []
        self._connections: set[socket.socket] = set()
        self._changed = threading.Condition()
        super().__init__(("127.0.0.1", port), _Handler)

    def server_bind(self) -> None:
        """Without the name look-up of HTTPServer, which takes seconds where there is no name server."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        with self._changed:
            self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._changed:
            self._connections.discard(request)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if error is None or isinstance(error, ConnectionError):
            return
        self.failures.append(error)
        super().handle_error(request, client_address)

    def close(self) -> None:
        """Close the port and all connections; a connection kept alive is not served any longer."""
        self.closing.set()
        self.shutdown()
        self.server_close()
        with self._changed:
            for connection in self._connections:
                # It may have been closed by its client since.
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue
            self._changed.wait_for(lambda: not self._connections, timeout=5)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing: the requests are in the ledger."""

    def do_GET(self) -> None:
        if self.path != "/statistics":
            self._serve(b"")
            return
        content = json.dumps(self.server.provider.ledger.statistics()).encode()
        self._send_head(_Answer(200, content))
        self.wfile.write(content)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        content = self.rfile.read(length)
        if len(content) < length:
            self.close_connection = True
            return
        self._serve(content)

    def _serve(self, content: bytes) -> None:
        provider = self.server.provider
        try:
            body = json.loads(content or b"{}")
        except ValueError:
            body = {}
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = provider.ledger.enter(self.path, headers, body if isinstance(body, dict) else {})
        try:
            provider.ledger.decide(request)
            self._reply(request)
        finally:
            provider.ledger.leave(request)

    def _reply(self, request: Request) -> None:
        provider = self.server.provider
        answer = _answer(request, provider.dimensions, provider.key)
        closing = self.server.closing.wait(provider.delay + (request.fault.seconds if request.fault else 0))
        kind = request.fault.kind if request.fault else None
        if closing or kind == "drop" or self._client_has_gone():
            self.close_connection = True
            return
        if not answer.content:
            provider.ledger.complete(request, answer, lambda: self._send_head(answer))
            return
        self._send_head(answer)
        if kind == "cut":
            self.wfile.write(answer.content[: len(answer.content) // 2])
            self.close_connection = True
            return
        self.wfile.write(answer.content[:-1])
        provider.ledger.complete(request, answer, lambda: self.wfile.write(answer.content[-1:]))

    def _client_has_gone(self) -> bool:
        """Whether the client closed the connection: the system takes a few more bytes for it, and nobody reads them."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""

    def _send_head(self, answer: _Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.content)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()


class ProviderServer:
    """Serves while its ``with`` block runs, on 127.0.0.1, in threads of this process.

    Args:
        dimensions: width of vectors where the request names none.
        delay: seconds that every answer takes, errors too.
        key: what requests must bear; None takes requests with any key or none.
        faults: one per embedding request in order of arrival (None: a proper answer), and proper answers when all are used
            up; or what decides for each request, called from several threads at the same time.
        port: 0 takes a free one.

    An exception in a callable of ``faults`` closes that connection and is raised again at the end of the block.
    """

    def __init__(
        self,
        dimensions: int = 64,
        *,
        delay: float = 0.0,
        key: str | None = None,
        faults: Sequence[Fault | None] | Callable[[Request], Fault | None] = (),
        port: int = 0,
    ) -> None:
        self.dimensions = dimensions
        self.delay = delay
        self.key = key
        self.ledger = _Ledger(faults)
        self._port = port
        self._server: _Server | None = None

    def __enter__(self) -> ProviderServer:
        self._server = _Server(self, self._port)
        self._port = self._server.server_port
        # The interval is how long closing may take.
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        failures = self._server.failures if self._server else []
        self.close()
        if failures and error is None:
            raise failures[0]

    def close(self) -> None:
        """Go away before the block ends: later connections are refused, and requests under way get no answer."""
        if self._server:
            self._server.close()
            self._server = None

    @property
    def ollama_base(self) -> str:
        if not self._port:
            raise RuntimeError("the server has no address before its `with` block begins")
        return f"http://127.0.0.1:{self._port}"

    @property
    def api_base(self) -> str:
        return f"{self.ollama_base}/v1"

    @property
    def requests(self) -> list[Request]:
        """Every request, in order of arrival; /statistics apart."""
        with self.ledger.lock:
            return list(self.ledger.requests)

    @property
    def answered_texts(self) -> Counter[str]:
        """How often each text's sound vector was sent, in an answer sent in full to a client that was still there."""
        with self.ledger.lock:
            return Counter(self.ledger.answered_texts)

    @property
    def most_at_once(self) -> int:
        """The highest number of requests that were under way at the same time."""
        with self.ledger.lock:
            return self.ledger.most_at_once

    @property
    def under_way(self) -> int:
        """How many requests have arrived and are neither answered nor given up."""
        with self.ledger.lock:
            return len(self.ledger.under_way)

    def vector_of(self, text: str, dimensions: int | None = None) -> list[float]:
        """The vector that a text is answered with, the same in every process.

        The more words two texts share the nearer they are; no two texts have the same vector. It is never all zeros, its
        length is not 1 and grows with the text, and it is the beginning of the text's wider vectors.
        """
        return _vector(text, dimensions or self.dimensions)


@dataclass(frozen=True)
class ProviderProcess:
    """A server in a process of its own."""

    api_base: str
    ollama_base: str
    process: subprocess.Popen[str]

    def statistics(self) -> dict[str, Any]:
        """What ``GET /statistics`` answers: requests, answered_texts, most_at_once, statuses (of answers sent in full)."""
        with urllib.request.urlopen(f"{self.ollama_base}/statistics", timeout=10) as response:
            answer: dict[str, Any] = json.load(response)
        return answer


@contextmanager
def provider_process(dimensions: int = 64, *, delay: float = 0.0, key: str | None = None) -> Iterator[ProviderProcess]:
    """Serve from another process, which outlives clients that are killed and ends with the block."""
    command = [sys.executable, "-m", "rag_pipeline_tests.provider_server", f"--dimensions={dimensions}", f"--delay={delay}"]
    process = subprocess.Popen(
        [*command, *([] if key is None else [f"--key={key}"])],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parent.parent,
    )
    with process:
        try:
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())
            yield ProviderProcess(address["api_base"], address["ollama_base"], process)
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description="Answer as the embedding APIs of OpenAI, Voyage and Ollama do.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--dimensions", type=int, default=64)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds that every answer takes")
    parser.add_argument("--key", help="what requests must bear")
    options = parser.parse_args()
    with ProviderServer(options.dimensions, delay=options.delay, key=options.key, port=options.port) as server:
        sys.stdout.write(json.dumps({"api_base": server.api_base, "ollama_base": server.ollama_base}) + "\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
