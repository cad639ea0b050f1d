"""Stops asking a provider that only fails, and asks again with one request at a time.

After M. T. Nygard, "Release It!", 2007: closed while requests succeed, open for a while after several failures in a row,
then half open: one request decides.
"""

from __future__ import annotations

import asyncio

from rag_pipeline.embedding.hosted.clock import Clock, time_of_day
from rag_pipeline.errors import ProviderError

_FAILURES_TO_OPEN = 5
_FIRST_PAUSE = 2.0
_LONGEST_PAUSE = 120.0


class CircuitBreaker:
    """One provider's health as all callers of this process have seen it. To be used on one event loop."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._failures = 0
        self._pause = _FIRST_PAUSE
        self._open_until = 0.0
        self._reason = ""
        self._probing = False
        self._settled = asyncio.Event()

    @property
    def closed(self) -> bool:
        """Whether any number of requests may be sent."""
        return self._failures < _FAILURES_TO_OPEN

    @property
    def opened_for(self) -> float:
        """Seconds for which nothing will be asked."""
        return 0.0 if self.closed else max(self._open_until - self._clock.monotonic(), 0.0)

    async def admit(self, deadline: float) -> bool:
        """Wait until the provider may be asked.

        Returns:
            Whether this request is the one that decides. Until its end is told, with `probe`, no other is admitted.

        Raises:
            ProviderError: that is not before the deadline; the message says when it will be.
        """
        while not self.closed:
            wait = self.opened_for
            if self._clock.monotonic() + wait > deadline:
                raise ProviderError(
                    f"{self._name} has failed {self._failures} times in a row ({self._reason}); it is not asked again "
                    f"before {time_of_day(self._clock, wait)}"
                )
            if wait > 0:
                await self._clock.sleep(wait)
            elif not self._probing:
                self._probing = True
                self._settled.clear()
                return True
            else:
                await self._settled.wait()
        return False

    def succeeded(self) -> None:
        self._failures = 0
        self._pause = _FIRST_PAUSE
        self._settle()

    def failed(self, reason: str, probe: bool) -> None:
        self._failures += 1
        self._reason = reason
        if not self.closed and not self.opened_for:
            self._open_until = self._clock.monotonic() + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        if probe:
            self._settle()

    def cancelled(self, probe: bool) -> None:
        """The request was given up before anything came of it."""
        if probe:
            self._settle()

    def _settle(self) -> None:
        self._probing = False
        self._settled.set()
