"""Keeps requests and tokens below what a provider allows a minute, and quiet when it asks for a pause."""

from __future__ import annotations

import asyncio
from collections import deque

from rag_pipeline.embedding.hosted.clock import Clock

_MINUTE = 60.0
_STRETCH = 6.0
"""Providers spread a minute's allowance over shorter stretches, so that a tenth of it fits into a tenth of a minute."""


class _Window:
    """How much was let through in the last ``seconds``."""

    def __init__(self, seconds: float, limit: float) -> None:
        self._seconds = seconds
        self._limit = limit
        self._past: deque[tuple[float, float]] = deque()
        self._sum = 0.0

    def wait(self, now: float, amount: float) -> float:
        """Seconds until so much more fits; what exceeds the limit by itself fits into an empty window."""
        while self._past and self._past[0][0] <= now - self._seconds:
            self._sum -= self._past.popleft()[1]
        left = self._sum
        for moment, passed in self._past:
            if left + amount <= self._limit:
                break
            left -= passed
            until = moment + self._seconds - now
            if left + amount <= self._limit or left <= 0:
                return until
        return 0.0

    def add(self, now: float, amount: float) -> None:
        self._past.append((now, amount))
        self._sum += amount


class RateLimiter:
    """Lets requests through one after the other, each as soon as the limits allow.

    In any minute at most ``requests_per_minute`` requests with ``tokens_per_minute`` tokens are let through; None is no
    limit. To be used on one event loop.
    """

    def __init__(self, requests_per_minute: int | None, tokens_per_minute: int | None, clock: Clock) -> None:
        self._clock = clock
        self._requests = _windows(requests_per_minute)
        self._tokens = _windows(tokens_per_minute)
        self._quiet_until = 0.0
        self._turn = asyncio.Lock()

    def pause(self, seconds: float) -> None:
        """Let nothing through for so long."""
        self._quiet_until = max(self._quiet_until, self._clock.monotonic() + seconds)

    @property
    def paused_for(self) -> float:
        """Seconds that are left of such a pause."""
        return max(self._quiet_until - self._clock.monotonic(), 0.0)

    async def admit(self, tokens: int) -> None:
        """Wait until a request with so many tokens may be sent."""
        async with self._turn:
            while (wait := self.wait_for(tokens)) > 0:
                await self._clock.sleep(wait)
            now = self._clock.monotonic()
            for window in self._requests:
                window.add(now, 1)
            for window in self._tokens:
                window.add(now, tokens)

    def wait_for(self, tokens: int) -> float:
        """Seconds until a request with so many tokens may be sent, if nobody else sends one; below 0 when it may."""
        now = self._clock.monotonic()
        waits = [self._quiet_until - now]
        waits += [window.wait(now, 1) for window in self._requests]
        waits += [window.wait(now, tokens) for window in self._tokens]
        return max(waits)


def _windows(limit: int | None) -> list[_Window]:
    if limit is None:
        return []
    return [_Window(_MINUTE, limit), _Window(_STRETCH, max(limit * _STRETCH / _MINUTE, 1))]
