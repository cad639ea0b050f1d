"""A model that is asked through LiteLLM to judge texts: keys, requests, what is tried again and what is told."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from rag_pipeline.config import RetrievalConfig
from rag_pipeline.embedding.hosted.background import run
from rag_pipeline.embedding.hosted.calls import CallError
from rag_pipeline.embedding.hosted.gate import Gate
from rag_pipeline.embedding.hosted.litellm_library import (
    Asked,
    check_variables,
    missing_variables,
    send,
)
from rag_pipeline.errors import ProviderError, RagPipelineError, RerankingError

T = TypeVar("T")

_KEY_VARIABLES = {"jina_ai": ("JINA_AI_API_KEY", "JINA_API_KEY", "JINA_AI_TOKEN")}
"""Any one of these holds the key. LiteLLM's own check does not know the provider (1.110)."""

_CONCURRENCY = 4
_RETRY_SECONDS = 10.0
"""People wait for a search."""


class HostedModel:
    """One model of one provider, by LiteLLM's name for it.

    Args:
        settings: whose ``rerank_model`` is asked.
        function: LiteLLM's function that sends a request, such as ``arerank``.
        api: what the provider has to have, as messages name it.
    """

    def __init__(self, settings: RetrievalConfig, function: str, api: str) -> None:
        if settings.rerank_model is None:
            raise RerankingError(f"retrieval.rerank_model: needed with rerank: {settings.rerank}")
        self.model = settings.rerank_model
        self.name = f"{settings.rerank}/{self.model}"
        self._api_base = settings.rerank_api_base
        self._timeout = settings.rerank_timeout_seconds
        self._function = function
        self._purpose = f"retrieval.rerank {settings.rerank}"
        self._asked = Asked(self.model, "retrieval.rerank_", api, RerankingError, api_base=self._api_base)
        self.gate = _gate(os.getpid(), self.name, self._api_base)

    def check_credentials(self) -> None:
        """
        Raises:
            CredentialsError: a key is missing; the message names its variable.
            MissingExtraError: LiteLLM is not installed.
        """
        variable = None
        own = _KEY_VARIABLES.get(self.model.split("/")[0])
        if own is not None:
            variable = next((name for name in own if os.environ.get(name)), None)
            missing = [own[0]] if variable is None else []
        else:
            missing = missing_variables(self._purpose, self.model, self._api_base)
        check_variables(self._purpose, self.model, missing, variable)

    def ask(self, requests: Sequence[dict[str, Any]], read: Callable[[Any, int], T]) -> list[T]:
        """Send requests, some at a time, each again while that may help.

        Args:
            requests: the arguments of each, apart from model, address and limits.
            read: makes something of an answer to the request of this number, or raises `unusable`.

        Raises:
            RerankingError, CredentialsError, ProviderError: one of them has failed for good.
        """

        async def one(number: int) -> T:
            async def asked() -> T:
                arguments = {**requests[number], "model": self.model}
                return read(await send(self._asked, self._purpose, self._function, arguments, self._timeout), number)

            return await self.gate.call(asked, 0, _RETRY_SECONDS)

        async def all_of_them() -> list[T]:
            tasks = [asyncio.ensure_future(one(number)) for number in range(len(requests))]
            try:
                return await asyncio.gather(*tasks)
            except CallError as failure:
                error: RagPipelineError = failure.error
            except ProviderError as failed:
                error = ProviderError(f"{failed}. Search again later")
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            raise error

        return run(all_of_them())

    def unusable(self, what: str) -> CallError:
        """The error for an answer that came and cannot be read; asking again may help."""
        return CallError("transient", ProviderError(f"{self.model} {what}"))


@lru_cache(maxsize=64)
def _gate(process: int, name: str, address: str | None) -> Gate:
    """All searches of a process that ask one model share its health. A forked process has a loop of its own."""
    return Gate(name, _CONCURRENCY)
