"""What the tests of hosted models share: a clock that is set by waiting, clients and embedders of a test server."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rag_pipeline.config import EmbedderConfig
from rag_pipeline.embedding.hosted.background import run
from rag_pipeline.embedding.hosted.build import hosted_embedder
from rag_pipeline.embedding.hosted.embedder import HostedEmbedder
from rag_pipeline.embedding.hosted.litellm_client import LiteLLMClient
from rag_pipeline_tests.provider_server import ProviderServer

KEY = "test-4fZ81kQw-77Lp_secret"
"""Of no provider's shape: it is known by being the value of a variable."""

KEY_VARIABLES = ("OPENAI_API_KEY", "VOYAGE_API_KEY", "HOSTED_VLLM_API_KEY")

MODELS = {
    "openai": "text-embedding-3-small",
    "voyage": "voyage-4",
    "ollama": "nomic-embed-text",
    "litellm": "hosted_vllm/our-model",
}
"""A model of each provider."""

NAMES = {provider: model if provider == "litellm" else f"{provider}/{model}" for provider, model in MODELS.items()}

_ROOT = Path(__file__).resolve().parents[3]
_TURNS = 25
"""Rounds of the event loop after which everything that can go on without the clock has gone on."""


class FakeClock:
    """Stands still while anything can go on, then jumps to the moment that is waited for next."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []
        self._numbers = itertools.count()
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._ticking: asyncio.Task[None] | None = None

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (self.now + seconds, next(self._numbers), woken))
        if self._ticking is None or self._ticking.done():
            self._ticking = asyncio.get_running_loop().create_task(self._tick())
        await woken

    async def _tick(self) -> None:
        while self._waiting:
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            moment, _, woken = heapq.heappop(self._waiting)
            if not woken.done():
                self.now = max(self.now, moment)
                woken.set_result(None)


async def settle() -> None:
    """Let everything go on that need not wait for the clock. Fewer rounds than a clock waits before it jumps."""
    for _ in range(_TURNS - 10):
        await asyncio.sleep(0)


def base_of(provider: str, server: ProviderServer) -> str:
    return server.ollama_base if provider == "ollama" else server.api_base


def client_of(
    provider: str, server: ProviderServer, *, dimensions: int | None = 64, ask: bool = True, timeout: float = 5
) -> LiteLLMClient:
    return LiteLLMClient(
        provider,
        MODELS[provider],
        dimensions=dimensions,
        ask_dimensions=ask,
        api_base=base_of(provider, server),
        timeout_seconds=timeout,
    )


def embedder_on(
    server: ProviderServer, provider: str = "openai", widths: Path | None = None, **values: Any
) -> HostedEmbedder:
    """An embedder that waits little between tries."""
    base = base_of(provider, server)
    config = EmbedderConfig.model_validate(
        {"provider": provider, "model": MODELS[provider], "dimensions": 64, "api_base": base, **values}
    )
    embedder = hosted_embedder(config, widths)
    embedder.gate.first_wait = 0.01
    return embedder


def tasks_left() -> list[str]:
    """What still runs on the loop of all requests, LiteLLM's own worker apart, when all has had time to end."""

    async def names() -> list[str]:
        await settle()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        return [text for text in map(repr, others) if "LoggingWorker" not in text]

    return run(names())


def in_another_process(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=_ROOT, capture_output=True, text=True, timeout=120, check=False
    )


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """An exception and all that a trace of it would show."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        link = waiting.pop()
        if link is not None and id(link) not in seen:
            seen.add(id(link))
            yield link
            waiting += [link.__cause__, link.__context__]
