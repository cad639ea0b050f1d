"""A chat model that counts what it is asked, read and paid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from rag_pipeline.embedding.hosted.chat import ChatModel
from rag_pipeline.errors import GenerationError
from rag_pipeline.evaluation.generation.results import ModelUsage

PURPOSE = "evaluate --generation"
Message: TypeAlias = dict[str, str]

_RETRY_SECONDS = 60.0
"""Long enough for a provider's limit by the minute."""


class CountingModel:
    """One model of one provider. To be used on one event loop.

    Args:
        model: LiteLLM's name for it.
        api_base: its address; None for the one that LiteLLM knows.
        keys: how its settings begin in corpus.yaml, as messages name them.
        concurrency: how many requests it may have at once.
    """

    def __init__(self, model: str, api_base: str | None, keys: str, concurrency: int, timeout_seconds: float) -> None:
        self.name = model
        self.chat = ChatModel(model, api_base, timeout_seconds, concurrency, keys, PURPOSE, GenerationError)
        self._requests = self._prompt_tokens = self._completion_tokens = 0
        self._cost: float | None = 0.0

    def check_credentials(self) -> None:
        """
        Raises:
            CredentialsError: a key is missing; the message names its variable.
            MissingExtraError: LiteLLM is not installed.
        """
        self.chat.check_credentials()

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
        said = await self.chat.ask(messages, None, _RETRY_SECONDS, as_json)
        self._requests += 1
        self._prompt_tokens += said.prompt_tokens
        self._completion_tokens += said.completion_tokens
        self._cost = self._cost + said.cost_usd if self._cost is not None and said.cost_usd is not None else None
        return said.text


def sendable(text: str) -> str:
    """A text as UTF-8 can hold it: a lone surrogate, which JSON can write, becomes a question mark."""
    return text.encode("utf-8", "replace").decode()
