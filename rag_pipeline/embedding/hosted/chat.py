"""A chat model that is asked through LiteLLM: keys, requests, what is tried again, tokens."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from rag_pipeline.embedding.hosted.calls import CallError
from rag_pipeline.embedding.hosted.gate import Gate
from rag_pipeline.embedding.hosted.litellm_library import (
    Asked,
    check_variables,
    missing_variables,
    send,
    token_count,
)
from rag_pipeline.errors import ProviderError, TerminalError


class Said(NamedTuple):
    """An answer, and its tokens as the provider counts them; 0 where it does not say.

    ``cost_usd`` is LiteLLM's price for them, None where it knows none.
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None


class ChatModel:
    """One model of one provider.

    Args:
        model: LiteLLM's name for it.
        api_base: its address; None for the one that LiteLLM knows.
        keys: how its settings begin in corpus.yaml, as messages name them (``chunking.context_``).
        purpose: what needs it, as a message begins.
        error: what is raised when it refuses for good.
    """

    def __init__(
        self,
        model: str,
        api_base: str | None,
        timeout_seconds: float,
        concurrency: int,
        keys: str,
        purpose: str,
        error: type[TerminalError],
    ) -> None:
        self.name = model
        self.gate = _gate(os.getpid(), model, api_base, concurrency)
        self._api_base = api_base
        self._timeout = timeout_seconds
        self._purpose = purpose
        self._asked = Asked(model, keys, "a chat API", error, api_base=api_base)

    def check_credentials(self) -> None:
        """
        Raises:
            CredentialsError: a key is missing; the message names its variable.
            MissingExtraError: LiteLLM is not installed.
        """
        check_variables(self._purpose, self.name, missing_variables(self._purpose, self.name, self._api_base), None)

    async def ask(
        self, messages: Sequence[dict[str, str]], most_tokens: int | None, retry_seconds: float, as_json: bool = False
    ) -> Said:
        """What the model says to messages; asked again while that may help.

        Args:
            most_tokens: how long its answer may be; None for as long as the model lets it.
            as_json: ask for a JSON object, where the model can be asked for one.

        Raises:
            CallError: of kind `refused`, which is about these messages, or `terminal`.
            ProviderError: the provider fails for longer than ``retry_seconds``.
        """

        return await self.gate.call(lambda: self._send(messages, most_tokens, as_json), 0, retry_seconds)

    async def _send(self, messages: Sequence[dict[str, str]], most_tokens: int | None, as_json: bool) -> Said:
        arguments: dict[str, Any] = {"model": self.name, "messages": list(messages), "temperature": 0}
        arguments["drop_params"] = True  # some models take no temperature, some no response format
        if most_tokens is not None:
            arguments["max_tokens"] = most_tokens
        if as_json:
            arguments["response_format"] = {"type": "json_object"}
        answer = await send(self._asked, self._purpose, "acompletion", arguments, self._timeout)
        try:
            text = answer.choices[0].message.content
        except (AttributeError, IndexError):
            raise CallError("transient", ProviderError(f"{self.name} answered without a message")) from None
        usage = getattr(answer, "usage", None)
        prompt, completion = (token_count(getattr(usage, f"{kind}_tokens", None)) or 0 for kind in ("prompt", "completion"))
        cost = (getattr(answer, "_hidden_params", None) or {}).get("response_cost")
        return Said(text if isinstance(text, str) else "", prompt, completion, cost)


@lru_cache(maxsize=64)
def _gate(process: int, name: str, address: str | None, concurrency: int) -> Gate:
    """All corpora of a process that ask one model share its health. A forked process has a loop of its own."""
    return Gate(name, concurrency)
