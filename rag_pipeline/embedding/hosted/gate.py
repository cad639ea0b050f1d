"""The one way to a provider: every request of a process passes its breaker and its limiter, and is tried again here."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rag_pipeline.embedding.hosted.calls import CallError
from rag_pipeline.embedding.hosted.circuit_breaker import CircuitBreaker
from rag_pipeline.embedding.hosted.clock import Clock, SystemClock, time_of_day
from rag_pipeline.embedding.hosted.rate_limit import RateLimiter
from rag_pipeline.errors import ProviderError

_log = logging.getLogger("rag_pipeline.embedding")

T = TypeVar("T")

_LONGEST_WAIT = 60.0
_WORTH_TELLING = 5.0
_LONGEST_PAUSE = 300.0
"""Others are held back no longer for one request's sake, so that a process that lives for days finds a provider back."""


class Gate:
    """To be used on one event loop, by all callers of one provider address and model.

    Waits between tries grow by a factor of two from ``first_wait`` seconds, each shortened by up to a half at random, so
    that callers that failed together do not come back together.
    """

    def __init__(
        self,
        name: str,
        concurrency: int,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        first_wait: float = 0.5,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.clock = clock or SystemClock()
        self.first_wait = first_wait
        self._limiter = RateLimiter(requests_per_minute, tokens_per_minute, self.clock)
        self._breaker = CircuitBreaker(name, self.clock)
        self._places = asyncio.Semaphore(concurrency)
        self._limits_told = -math.inf

    async def call(self, send: Callable[[], Awaitable[T]], tokens: int, retry_seconds: float) -> T:
        """Send a request, again while that may help and ``retry_seconds`` have not passed since the first try.

        Raises:
            CallError: of kind `refused` or `terminal`.
            ProviderError: the provider failed for longer than that, or asks for a longer pause.
        """
        patience = _Patience(self.clock, retry_seconds)
        tries = 0
        while True:
            try:
                return await self._try_once(send, tokens, patience)
            except CallError as failure:
                if failure.kind in ("refused", "terminal"):
                    raise
                tries += 1
                wait = self._wait_after(failure, tries)
                if failure.kind == "throttled" or failure.retry_after is not None:
                    self._limiter.pause(min(wait, _LONGEST_PAUSE))
                if self.clock.monotonic() + wait > patience.deadline:
                    raise self._given_up(failure, tries) from None
                self._tell(str(failure), max(wait, self._breaker.opened_for))
            await self.clock.sleep(wait)

    async def _try_once(self, send: Callable[[], Awaitable[T]], tokens: int, patience: _Patience) -> T:
        while True:
            probe = await self._breaker.admit(patience.deadline)
            try:
                self._check_pause(patience)
                async with self._places:
                    # The breaker may have opened while this request stood in a queue; it then goes back to the start.
                    if probe or self._breaker.closed:
                        self._check_pause(patience)
                        self._tell_of_limits(self._limiter.wait_for(tokens))
                        await self._limiter.admit(tokens)
                    if probe or self._breaker.closed:
                        patience.begin()
                        answer = await send()
                        self._breaker.succeeded()
                        return answer
            except CallError as failure:
                # A provider that refuses or slows us down is alive.
                if failure.kind == "transient":
                    self._breaker.failed(str(failure), probe)
                else:
                    self._breaker.succeeded()
                raise
            except BaseException:
                self._breaker.cancelled(probe)
                raise

    def _check_pause(self, patience: _Patience) -> None:
        """
        Raises:
            ProviderError: the pause that the provider asked for is longer than this request may wait.
        """
        pause = self._limiter.paused_for
        if pause > 0 and self.clock.monotonic() + pause > patience.deadline:
            raise ProviderError(
                f"{self.name} has asked for a pause; it is not asked again before {time_of_day(self.clock, pause)}"
            )

    def _wait_after(self, failure: CallError, tries: int) -> float:
        """Not less than the provider asks for. Its own wait may be none, so that ours has to grow all the same."""
        wait = min(self.first_wait * 2.0 ** (tries - 1), _LONGEST_WAIT) * (1 - random.random() / 2)
        return max(wait, failure.retry_after or 0.0)

    def _given_up(self, failure: CallError, tries: int) -> ProviderError:
        asked = f"; it asks to wait {failure.retry_after:.0f} s" if failure.retry_after else ""
        times = "once" if tries == 1 else f"{tries} times"
        return ProviderError(f"{failure.error}{asked}; tried {times}")

    def _tell_of_limits(self, wait: float) -> None:
        """At most once a minute: limits that hold requests back are there to do so."""
        now = self.clock.monotonic()
        if wait >= _WORTH_TELLING and now >= self._limits_told + 60:
            self._limits_told = now
            _log.warning(
                "%s: requests_per_minute or tokens_per_minute hold requests back; the next one goes out at %s",
                self.name,
                time_of_day(self.clock, wait),
            )

    def _tell(self, reason: str, wait: float) -> None:
        if wait >= _WORTH_TELLING:
            _log.warning("%s; next try at %s", reason, time_of_day(self.clock, wait))


class _Patience:
    """How long a request goes on being tried: so many seconds from when it was first sent. Its turn it awaits before."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._begun: float | None = None

    def begin(self) -> None:
        if self._begun is None:
            self._begun = self._clock.monotonic()

    @property
    def deadline(self) -> float:
        return (self._clock.monotonic() if self._begun is None else self._begun) + self._seconds
