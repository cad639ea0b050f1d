"""A server that answers rerank and chat requests as providers do, on 127.0.0.1, with faults that a test asks for.

Rerank: Cohere (``/v1/rerank``, ``/v2/rerank``), Jina and vLLM (``/v1/rerank``), Voyage (``/v1/rerank``, ``top_k`` and
``data``). Chat: OpenAI's ``/v1/chat/completions``, for requests of the judge and for context lines. A text scores the share
of the query's words that it holds, so that a test knows the right order. Requests that the real APIs would refuse are
answered 400.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rag_pipeline_tests.json_server import Answer, JsonServer, chat_completion

RERANK_PATHS = ("/v1/rerank", "/v2/rerank", "/rerank")
CHAT_PATHS = ("/v1/chat/completions", "/chat/completions")


@dataclass(frozen=True)
class Fault:
    """What is wrong with one answer: a status with a message, or a change of the body of a proper one.

    In ``message``, ``{key}`` stands for the key that the client sent.
    """

    status: int = 200
    message: str = ""
    retry_after: str | None = None
    change: Callable[[dict[str, Any]], Any] | None = None
    raw: str | None = None


@dataclass
class Request:
    path: str
    authorization: str
    body: dict[str, Any]
    texts: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        return self.authorization.split(" ")[-1]


def score(query: str, text: str) -> float:
    """The share of the query's words that a text holds."""
    words = query.lower().split()
    return sum(word in text.lower().split() for word in words) / max(len(words), 1)


def _refusal(request: Request) -> str | None:
    body = request.body
    if request.path in RERANK_PATHS:
        if not isinstance(body.get("model"), str) or not isinstance(body.get("query"), str) or not body["query"]:
            return "model and query are required"
        documents = body.get("documents")
        if not isinstance(documents, list) or not documents or not all(isinstance(one, str) and one for one in documents):
            return "documents: expected a list of texts"
        if len(documents) > 1000:
            return "too many documents"
        return None
    if request.path in CHAT_PATHS:
        messages = body.get("messages")
        roles = [message.get("role") for message in messages] if isinstance(messages, list) else None
        return None if roles == ["system", "user"] else "messages: expected one of system and one of user"
    return "no such path"


def _rerank_answer(request: Request) -> dict[str, Any]:
    body = request.body
    request.texts = list(body["documents"])
    rows = [{"index": place, "relevance_score": score(body["query"], text)} for place, text in enumerate(body["documents"])]
    rows.sort(key=lambda row: -row["relevance_score"])
    if "top_k" in body:
        return {"object": "list", "data": rows[: body["top_k"]], "model": body["model"], "usage": {"total_tokens": 7}}
    meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
    return {"id": "r-1", "results": rows[: body.get("top_n", len(rows))], "meta": meta, "usage": {"total_tokens": 7}}


def _chat_answer(request: Request) -> dict[str, Any]:
    asked = json.loads(request.body["messages"][1]["content"])
    if "passage" in asked:
        request.texts = [asked["passage"]]
        content = written_line(asked["title"], asked["passage"])
    else:
        request.texts = [passage["text"] for passage in asked["passages"]]
        grades = [
            {"passage": passage["passage"], "grade": round(10 * score(asked["query"], passage["text"]))}
            for passage in asked["passages"]
        ]
        content = json.dumps({"grades": grades})
    return chat_completion(request.body["model"], content, prompt_tokens=5, completion_tokens=2)


def written_line(title: str, passage: str) -> str:
    """What is answered to whoever asks for a context line: it holds a word that is in no passage."""
    return f"Zanzibar, where {title or 'a page without title'} says {len(passage)} letters."


class RerankServer(JsonServer):
    """``faults`` are for the first requests, one each; None is a proper answer."""

    def __init__(self, faults: Sequence[Fault | None] = ()) -> None:
        super().__init__()
        self.requests: list[Request] = []
        self._faults = list(faults)
        self._lock = threading.Lock()

    def answer(self, path: str, authorization: str, body: dict[str, Any]) -> Answer:
        request = Request(path, authorization, body)
        fault = self._take(request)
        refusal = _refusal(request)
        if fault.status == 200 and refusal is not None:
            fault = Fault(400, refusal)
        if fault.status != 200:
            message = fault.message.replace("{key}", request.key)
            waiting = {} if fault.retry_after is None else {"Retry-After": fault.retry_after}
            return Answer(fault.status, {"message": message, "error": {"message": message}}, waiting)
        answer: Any = _rerank_answer(request) if request.path in RERANK_PATHS else _chat_answer(request)
        if fault.change is not None:
            answer = fault.change(answer)
        return Answer(200, fault.raw if fault.raw is not None else json.dumps(answer))

    def _take(self, request: Request) -> Fault:
        with self._lock:
            self.requests.append(request)
            return (self._faults.pop(0) if self._faults else None) or Fault()
