"""Sends requests for embeddings through LiteLLM; sees that nothing leaves but to the provider."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_pipeline.embedding.hosted.calls import Answer, CallError, Purpose
from rag_pipeline.embedding.hosted.litellm_library import (
    Asked,
    check_variables,
    load_litellm,
    missing_variables,
    send,
    token_count,
)
from rag_pipeline.embedding.hosted.model_facts import PROVIDERS, input_types
from rag_pipeline.errors import EmbeddingError, ProviderError

_TAKES_ANY_DIMENSIONS = ("openai/", "hosted_vllm/", "litellm_proxy/")
"""LiteLLM refuses `dimensions` for models of these that it does not know, although the server may take them."""

_NO_TRUNCATION: dict[str, dict[str, bool]] = {"voyage/": {"truncation": False}, "ollama/": {"truncate": False}}
"""These providers embed the beginning of a text that is too long and say nothing, unless told to refuse it."""


class LiteLLMClient:
    """One model of one provider.

    Args:
        provider: one of `PROVIDERS`.
        model: the provider's name for it, or LiteLLM's for provider `litellm`.
        dimensions: the width of the vectors; None while it is not known.
        ask_dimensions: whether to ask for this width, which not every model can.
    """

    def __init__(
        self,
        provider: str,
        model: str,
        *,
        dimensions: int | None,
        ask_dimensions: bool,
        api_base: str | None,
        timeout_seconds: float,
    ) -> None:
        facts = PROVIDERS[provider]
        self.name = f"{provider}/{model}" if provider != "litellm" else model
        self.dimensions = dimensions
        self._provider = provider
        self._model = facts.prefix + model
        self._key_variables = facts.key_variables
        self._ask_dimensions = ask_dimensions
        self._api_base = api_base
        self._timeout = timeout_seconds
        self._input_types = input_types(self._model)
        self._purpose = f"embedding.provider {provider}"
        self._asked = Asked(
            self.name, "embedding.", "an embedding API", key_variables=facts.key_variables, api_base=api_base
        )

    def check_credentials(self) -> None:
        load_litellm(self._purpose)
        missing = list(self._key_variables[:1]) if self._key_variables and self._key() is None else []
        if self._provider == "litellm":
            missing = missing_variables(self._purpose, self._model, self._api_base)
        check_variables(self._purpose, self.name, missing, self._key_variable())

    async def request(self, texts: Sequence[str], purpose: Purpose) -> Answer:
        arguments: dict[str, Any] = {"model": self._model, "input": list(texts)}
        if self._key_variables:
            arguments["api_key"] = self._key()
        if self._ask_dimensions:
            arguments["dimensions"] = self.dimensions
            if self._model.startswith(_TAKES_ANY_DIMENSIONS):
                arguments["allowed_openai_params"] = ["dimensions"]
        arguments |= next((flags for prefix, flags in _NO_TRUNCATION.items() if self._model.startswith(prefix)), {})
        if self._input_types is not None:
            arguments["input_type"] = self._input_types[0 if purpose == "document" else 1]
        response = await send(self._asked, self._purpose, "aembedding", arguments, self._timeout)
        return Answer(self._matrix(response.data, len(texts)), _tokens(response))

    def _key(self) -> str | None:
        name = self._key_variable()
        return os.environ[name] if name is not None else None

    def _key_variable(self) -> str | None:
        return next((name for name in self._key_variables if os.environ.get(name)), None)

    def _matrix(self, rows: Any, wanted: int) -> npt.NDArray[np.float32]:
        """The vectors in the order of their texts; a number that is missing becomes NaN, which the caller looks for."""
        given = list(rows) if isinstance(rows, list) else []
        if not all(isinstance(row, dict) for row in given):
            raise self._unusable("answered rows that are no vectors")
        places = [row["index"] for row in given if isinstance(row.get("index"), int)]
        if len(given) != wanted:
            raise self._unusable(f"answered {len(given)} vectors for {wanted} texts")
        if sorted(places) != list(range(wanted)):
            raise self._unusable("answered vectors that do not say which texts they are of")
        vectors: list[Any] = [None] * wanted
        for row in given:
            vectors[row["index"]] = row.get("embedding")
        widths = {len(vector) if isinstance(vector, (list, tuple)) else 0 for vector in vectors}
        if widths == {0} or len(widths) != 1:
            raise self._unusable("answered rows that are no vectors of one width")
        width = widths.pop()
        if self.dimensions is not None and width != self.dimensions:
            raise CallError(
                "terminal",
                EmbeddingError(
                    f"{self.name} answered vectors of {width} dimensions; expected {self.dimensions}. Set "
                    f"embedding.dimensions to a width that the model gives, or embedding.revision when the model has "
                    f"changed behind its name"
                ),
            )
        # What does not fit becomes infinite, which the caller looks for as well.
        with np.errstate(over="ignore"):
            try:
                return np.array(vectors, dtype=np.float32)
            except (OverflowError, TypeError, ValueError):
                return np.array([[_number(value) for value in vector] for vector in vectors], dtype=np.float32)

    def _unusable(self, what: str) -> CallError:
        return CallError("transient", ProviderError(f"{self.name} {what}"))


def _number(value: Any) -> float:
    try:
        return float(value) if isinstance(value, (int, float)) else float("nan")
    except OverflowError:
        return float("inf")


def _tokens(response: Any) -> int | None:
    usage = getattr(response, "usage", None)
    counts = (token_count(getattr(usage, name, None)) for name in ("total_tokens", "prompt_tokens"))
    return next((count for count in counts if count is not None), None)
