"""A server on 127.0.0.1 that takes JSON and answers with it: what the servers of chat models and of rerankers build on."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple

from typing_extensions import Self


class Answer(NamedTuple):
    """A text is sent as it is."""

    status: int
    body: dict[str, Any] | str
    headers: dict[str, str] = {}  # noqa: RUF012 - of a named tuple, which nobody changes


class JsonServer(ABC):
    """To be used with ``with``. Requests are answered side by side, each in a thread of its own."""

    def __init__(self) -> None:
        self._server = _Server(self)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @abstractmethod
    def answer(self, path: str, authorization: str, body: dict[str, Any]) -> Answer: ...

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, owner: JsonServer) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        answer = self.server.owner.answer(self.path, self.headers.get("Authorization") or "", body)
        content = (answer.body if isinstance(answer.body, str) else json.dumps(answer.body)).encode()
        self.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def chat_completion(model: str, content: str, prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
    """What a chat model of OpenAI's API says."""
    message = {"role": "assistant", "content": content}
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }
    return {
        "id": "c-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage,
    }
