"""The clock that waiting goes by; tests put another in its place."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

_HALF_A_DAY = 43_200


class Clock(Protocol):
    """Seconds that only go forward, and waiting by them."""

    def monotonic(self) -> float: ...

    def time(self) -> float:
        """Seconds since 1970, for people."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def time_of_day(clock: Clock, wait: float) -> str:
    """When it will be ``wait`` seconds from now, as people in this time zone read it; with the day when that is far."""
    form = "%H:%M:%S" if wait < _HALF_A_DAY else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(clock.time() + wait))
