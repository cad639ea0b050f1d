"""A server that answers chat requests as OpenAI's API does, on 127.0.0.1: answers to questions, and RAGAS's judgements.

It reads the question and the passages, or the input and the form that a prompt of RAGAS's asks for, and judges by words: a
statement follows from a text that holds all of its words. So a test knows what scores come out. A model's name says how it
answers: `inventor` invents everything, `half` adds an invented sentence, `silent` says nothing, `unsure` does not know; any
other one repeats the passage that shares the most words with the question.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rag_pipeline_tests.json_server import Answer, JsonServer, chat_completion

INVENTED = "Purple zebras juggle quarterly spreadsheets."
UNSURE = "The passages do not say."
INPUT_MARK = "Now perform the same with the following input\ninput: "

FORMS = (
    "StatementGeneratorOutput",
    "NLIStatementOutput",
    "AnswerRelevanceOutput",
    "ContextPrecisionOutput",
    "ContextRecallOutput",
)
"""The titles of the JSON schemas that RAGAS's prompts ask for."""


@dataclass(frozen=True)
class Reply:
    """Instead of a proper answer: a status with a message, or another text. ``{key}`` stands for the client's key."""

    status: int = 200
    message: str = ""
    content: str | None = None
    seconds: float = 0.0


@dataclass
class Request:
    """``form`` is the title of the schema that RAGAS asks for; None for a question to be answered."""

    path: str
    key: str
    body: dict[str, Any]
    form: str | None
    given: dict[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> str:
        return str(self.body["model"])


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def sentences(text: str) -> list[str]:
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+", text.strip()) if sentence]


def follows(statement: str, text: str) -> int:
    return int(words(statement) <= words(text))


def answered(model: str, question: str, passages: Sequence[str]) -> str:
    """What a model says to a question."""
    if model.endswith("silent"):
        return ""
    if model.endswith("unsure"):
        return UNSURE
    if model.endswith("inventor"):
        return INVENTED
    best = max(passages, key=lambda text: len(words(question) & words(text)))
    return f"{best} {INVENTED}" if model.endswith("half") else best


def judged(form: str, given: dict[str, Any]) -> dict[str, Any]:
    """What the judge says to the input of a prompt of RAGAS's."""
    if form == "StatementGeneratorOutput":
        return {"statements": sentences(given["answer"])}
    if form == "NLIStatementOutput":
        verdicts = [(text, follows(text, given["context"])) for text in given["statements"]]
        return {"statements": [{"statement": text, "reason": "words", "verdict": verdict} for text, verdict in verdicts]}
    if form == "AnswerRelevanceOutput":
        return {"question": given["response"], "noncommittal": int(given["response"] == UNSURE)}
    useful = [(text, follows(text, given["context"])) for text in sentences(given["answer"])]
    if form == "ContextPrecisionOutput":
        return {"reason": "words", "verdict": int(any(verdict for _, verdict in useful))}
    return {"classifications": [{"statement": text, "reason": "words", "attributed": verdict} for text, verdict in useful]}


def read_request(path: str, key: str, body: dict[str, Any]) -> Request:
    prompt = body["messages"][0]["content"]
    form = next((name for name in FORMS if f'"title": "{name}"' in prompt), None)
    if form is not None:
        return Request(path, key, body, form, json.JSONDecoder().raw_decode(prompt.split(INPUT_MARK)[1])[0])
    return Request(path, key, body, None, json.loads(body["messages"][1]["content"]))


def proper_answer(request: Request) -> str:
    if request.form is not None:
        return json.dumps(judged(request.form, request.given))
    return answered(request.model, request.given["question"], [one["text"] for one in request.given["passages"]])


class ChatServer(JsonServer):
    """``instead`` is asked what to reply to a request; None for a proper answer."""

    def __init__(self, instead: Callable[[Request], Reply | None] | None = None) -> None:
        super().__init__()
        self.requests: list[Request] = []
        self._instead = instead

    @property
    def address(self) -> str:
        return f"{super().address}/v1"

    def answer(self, path: str, authorization: str, body: dict[str, Any]) -> Answer:
        key = authorization.removeprefix("Bearer ")
        request = read_request(path, key, body)
        self.requests.append(request)
        reply = (self._instead(request) if self._instead is not None else None) or Reply()
        time.sleep(reply.seconds)
        if reply.status != 200:
            error = {"message": reply.message.replace("{key}", key), "type": "server_error"}
            return Answer(reply.status, {"error": error})
        content = reply.content if reply.content is not None else proper_answer(request)
        return Answer(200, chat_completion(request.model, content, prompt_tokens=100, completion_tokens=10))
