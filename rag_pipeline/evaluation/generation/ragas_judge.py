"""RAGAS, the only module that imports it: its metrics, on our way to a chat model and on the corpus's embedder.

Its own clients are not used. They tell its makers of every request unless told not to, and leave limits, retries, keys in
messages and costs to somebody else.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, ValidationError

from rag_pipeline.embedding import Embedder
from rag_pipeline.embedding.hosted.calls import CallError
from rag_pipeline.embedding.hosted.litellm_library import load_litellm
from rag_pipeline.errors import GenerationError, MissingExtraError
from rag_pipeline.evaluation.generation.counting_model import PURPOSE, CountingModel, Message, sendable

Model = TypeVar("Model", bound=BaseModel)

_TRIES = 3
"""How often a model is asked for an answer of the right form. At temperature 0 it has to be told what was wrong."""


class Judge:
    """A chat model behind RAGAS's interface for one, `InstructorBaseRagasLLM`."""

    def __init__(self, model: CountingModel) -> None:
        self._model = model

    async def agenerate(self, prompt: str, response_model: type[Model]) -> Model:
        """What the model answers to a prompt of RAGAS's.

        Raises:
            CallError: of kind `refused` where it does not keep to the form; else see `CountingModel.ask`.
        """
        messages: list[Message] = [{"role": "user", "content": prompt}]
        fault = ""
        for _ in range(_TRIES):
            said = await self._model.ask(messages, as_json=True)
            try:
                return read_answer(said, response_model)
            except ValueError as error:
                fault = str(error)
            again = (
                f"That is not what was asked for: {fault}. Answer with one JSON object of the form above and nothing else."
            )
            messages = [messages[0], {"role": "assistant", "content": said}, {"role": "user", "content": again}]
        raise CallError(
            "refused",
            GenerationError(
                f"{self._model.name} was asked {_TRIES} times for JSON of a form and did not keep to it: {fault}"
            ),
        )


def read_answer(said: str, form: type[Model]) -> Model:
    """The JSON object of a message, which may stand in a fence or behind what a model thought aloud.

    Raises:
        ValueError: there is none of this form, or one of its verdicts is neither 0 nor 1. RAGAS would calculate with any
            number.
    """
    text = said[said.find("{") : said.rfind("}") + 1] if "{" in said else ""
    try:
        value = json.loads(text)
    except ValueError:
        raise ValueError("it holds no JSON object") from None
    try:
        answer = form.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    for number in _whole_numbers(answer.model_dump()):
        if number not in (0, 1):
            raise ValueError(f"a verdict is {number}, expected 0 or 1")
    return answer


def _whole_numbers(value: Any) -> list[int]:
    """All whole numbers in an answer. The forms that are used here have no others than verdicts."""
    if isinstance(value, dict):
        return [number for inner in value.values() for number in _whole_numbers(inner)]
    if isinstance(value, list):
        return [number for inner in value for number in _whole_numbers(inner)]
    return [value] if isinstance(value, int) else []


class QuestionEmbedding:
    """The corpus's embedder behind RAGAS's interface for one, `BaseRagasEmbedding`; all it embeds are questions."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def aembed_text(self, text: str, **_: Any) -> list[float]:
        # On another thread: a hosted embedder waits for the event loop that this runs on.
        vector = await asyncio.to_thread(self._embedder.embed_query, sendable(text))
        return [float(value) for value in vector]

    async def aembed_texts(self, texts: Sequence[str], **_: Any) -> list[list[float]]:
        return [await self.aembed_text(text) for text in texts]


class RagasMetrics:
    """RAGAS's metrics by name, with its own prompts and settings.

    Definitions: Es et al., RAGAS: Automated Evaluation of Retrieval Augmented Generation, EACL 2024, and docs.ragas.io.

    Raises:
        MissingExtraError: RAGAS is not installed.
        GenerationError: it cannot be imported with what is installed beside it.
    """

    def __init__(self, model: CountingModel, embedder: Embedder) -> None:
        collections = _load_ragas()
        judge, embedding = Judge(model), QuestionEmbedding(embedder)
        self._metrics = {
            "faithfulness": collections.Faithfulness(llm=judge),
            "answer_relevancy": collections.AnswerRelevancy(llm=judge, embeddings=embedding),
            "context_precision": collections.ContextPrecisionWithReference(llm=judge),
            "context_recall": collections.ContextRecall(llm=judge),
            "context_utilization": collections.ContextUtilization(llm=judge),
        }

    async def score(
        self, name: str, *, question: str, answer: str, passages: Sequence[str], reference: str | None
    ) -> float | None:
        """A metric's score, or None where it is not defined, as faithfulness is not for an answer that states nothing.

        Raises:
            CallError, ProviderError: see `CountingModel.ask`; EmbeddingError and others: see `Embedder`.
        """
        given = {"user_input": sendable(question), "response": sendable(answer), "retrieved_contexts": list(passages)}
        if reference is not None:
            given["reference"] = sendable(reference)
        # A question without a token has a vector of zeros, and no cosine.
        with np.errstate(divide="ignore", invalid="ignore"):
            result = await self._metrics[name].ascore(**{key: given[key] for key in _TAKES[name]})
        # It adds 1e-10 to a denominator, which makes 0.9999999999 of 1.
        score = round(float(result.value), 6)
        return score if math.isfinite(score) else None


_TAKES = {
    "faithfulness": ("user_input", "response", "retrieved_contexts"),
    "answer_relevancy": ("user_input", "response"),
    "context_precision": ("user_input", "reference", "retrieved_contexts"),
    "context_recall": ("user_input", "reference", "retrieved_contexts"),
    "context_utilization": ("user_input", "response", "retrieved_contexts"),
}


def _load_ragas() -> Any:
    """RAGAS's metrics, told to keep to itself. Importing it takes some seconds."""
    os.environ["RAGAS_DO_NOT_TRACK"] = "true"
    # Something that RAGAS imports may import LiteLLM, which must have been told first.
    load_litellm(PURPOSE)
    try:
        import ragas  # noqa: F401 - whether it is there at all is told by its own name
        from ragas.embeddings.base import BaseRagasEmbedding
        from ragas.llms.base import InstructorBaseRagasLLM
        from ragas.metrics import collections
    except ImportError as error:
        if error.name == "ragas":
            raise MissingExtraError("ragas", "generation", PURPOSE) from None
        raise GenerationError(
            f"{PURPOSE}: RAGAS cannot be imported with what is installed beside it ({error}): the extra `generation` pins "
            "what it needs; from a checkout, pip install '.[generation]'"
        ) from None
    InstructorBaseRagasLLM.register(Judge)
    BaseRagasEmbedding.register(QuestionEmbedding)
    return collections
