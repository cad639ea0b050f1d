"""A chat model that is asked through LiteLLM: keys, requests, what is tried again, tokens and what they cost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from rag_pipeline.embedding.hosted.calls import CallError
from rag_pipeline.embedding.hosted.gate import Gate
from rag_pipeline.embedding.hosted.litellm_library import (
    Asked,
    NoRetries,
    answer_of,
    check_variables,
    forgo_price_lookup,
    load_litellm,
    missing_variables,
)
from rag_pipeline.errors import GenerationError, ProviderError
from rag_pipeline.evaluation.generation.results import ModelUsage

PURPOSE = "evaluate --generation"
Message: TypeAlias = dict[str, str]

_RETRY_SECONDS = 60.0
"""Long enough for a provider's limit by the minute."""


class ChatModel:
    """One model of one provider. To be used on one event loop.

    Args:
        model: LiteLLM's name for it.
        api_base: its address; None for the one that LiteLLM knows.
        keys: how its settings begin in corpus.yaml, as messages name them.
        concurrency: how many requests it may have at once.
    """

    def __init__(self, model: str, api_base: str | None, keys: str, concurrency: int, timeout_seconds: float) -> None:
        self.name = model
        self.gate = Gate(model, concurrency)
        self._api_base = api_base
        self._timeout = timeout_seconds
        self._asked = Asked(model, keys, "a chat API", GenerationError, api_base=api_base)
        self._requests = self._prompt_tokens = self._completion_tokens = 0
        self._cost: float | None = 0.0

    def check_credentials(self) -> None:
        """
        Raises:
            CredentialsError: a key is missing; the message names its variable.
            MissingExtraError: LiteLLM is not installed.
        """
        check_variables(PURPOSE, self.name, missing_variables(PURPOSE, self.name, self._api_base), None)

    def usage(self) -> ModelUsage:
        """What was asked so far."""
        return ModelUsage(
            model=self.name,
            requests=self._requests,
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            cost_usd=self._cost,
        )

    async def ask(self, messages: Sequence[Message], as_json: bool = False) -> str:
        """What the model says to messages; asked again while that may help.

        Args:
            as_json: ask for a JSON object, where the model can be asked for one.

        Raises:
            CallError: of kind `refused`, which is about these messages, or `terminal`.
            ProviderError: the provider fails for longer than a minute.
        """

        async def send() -> str:
            return await self._send(messages, as_json)

        return await self.gate.call(send, 0, _RETRY_SECONDS)

    async def _send(self, messages: Sequence[Message], as_json: bool) -> str:
        litellm = load_litellm(PURPOSE)
        forgo_price_lookup(litellm, self.name, "chat")
        ask: Callable[..., Awaitable[Any]] = litellm.acompletion
        arguments: dict[str, Any] = {"model": self.name, "messages": list(messages), "timeout": self._timeout}
        arguments |= {"max_retries": NoRetries(0), "num_retries": 0, "temperature": 0}
        arguments["drop_params"] = True  # some models take no temperature, some no response format
        if as_json:
            arguments["response_format"] = {"type": "json_object"}
        if self._api_base is not None:
            arguments["api_base"] = self._api_base
        answer = await answer_of(self._asked, ask(**arguments), self._timeout)
        self._count(answer)
        try:
            said = answer.choices[0].message.content
        except (AttributeError, IndexError):
            raise CallError("transient", ProviderError(f"{self.name} answered without a message")) from None
        return said if isinstance(said, str) else ""

    def _count(self, answer: Any) -> None:
        usage = getattr(answer, "usage", None)
        self._requests += 1
        self._prompt_tokens += getattr(usage, "prompt_tokens", None) or 0
        self._completion_tokens += getattr(usage, "completion_tokens", None) or 0
        # LiteLLM counts tokens itself where the provider did not.
        cost = (getattr(answer, "_hidden_params", None) or {}).get("response_cost")
        self._cost = self._cost + cost if self._cost is not None and cost is not None else None


def sendable(text: str) -> str:
    """A text as UTF-8 can hold it: a lone surrogate, which JSON can write, becomes a question mark."""
    return text.encode("utf-8", "replace").decode()
