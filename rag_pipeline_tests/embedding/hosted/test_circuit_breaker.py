"""A provider that only fails is left alone, then asked with one request at a time."""

from __future__ import annotations

import asyncio
import math
import time

import pytest

from rag_pipeline.embedding.hosted.circuit_breaker import CircuitBreaker
from rag_pipeline.errors import ProviderError
from rag_pipeline_tests.embedding.hosted.support import FakeClock, settle


def opened(clock: FakeClock) -> CircuitBreaker:
    breaker = CircuitBreaker("voyage/voyage-4", clock)
    for _ in range(5):
        breaker.failed("status 503", probe=False)
    return breaker


def test_it_opens_after_five_failures_in_a_row() -> None:
    breaker = CircuitBreaker("x", FakeClock())
    for _ in range(3):
        for _ in range(4):
            breaker.failed("no", probe=False)
        assert breaker.closed
        breaker.succeeded()
    for _ in range(5):
        breaker.failed("no", probe=False)
    assert not breaker.closed
    assert breaker.opened_for == 2


def test_whoever_has_not_the_time_is_told_when_it_will_be_asked_again() -> None:
    clock = FakeClock()
    breaker = opened(clock)
    again = time.strftime("%H:%M:%S", time.localtime(1002))
    with pytest.raises(ProviderError, match=rf"voyage/voyage-4 has failed 5 times in a row \(status 503\).*before {again}"):
        asyncio.run(breaker.admit(clock.now + 1))
    assert clock.waits == []


def test_half_open_lets_one_request_through_and_its_success_lets_all() -> None:
    clock = FakeClock()
    admitted: list[bool] = []

    async def one(breaker: CircuitBreaker) -> None:
        admitted.append(await breaker.admit(math.inf))

    async def everything() -> None:
        breaker = opened(clock)
        waiting = [asyncio.create_task(one(breaker)) for _ in range(10)]
        await clock.sleep(11)
        await settle()
        assert admitted == [True]
        breaker.succeeded()
        await asyncio.gather(*waiting)
        assert admitted == [True] + [False] * 9
        assert breaker.closed

    asyncio.run(everything())


def test_pauses_double_up_to_two_minutes_and_start_anew_after_a_success() -> None:
    clock = FakeClock()

    async def everything() -> None:
        breaker = opened(clock)
        pauses = [breaker.opened_for]
        for _ in range(6):
            assert await breaker.admit(math.inf)
            breaker.failed("no", probe=True)
            pauses.append(breaker.opened_for)
        assert pauses == [2, 4, 8, 16, 32, 64, 120]
        await breaker.admit(math.inf)
        breaker.succeeded()
        for _ in range(5):
            breaker.failed("no", probe=False)
        assert breaker.opened_for == 2

    asyncio.run(everything())


def test_a_probe_that_is_cancelled_passes_its_place_on() -> None:
    async def everything() -> None:
        breaker = opened(FakeClock())
        assert await breaker.admit(math.inf)
        following = asyncio.create_task(breaker.admit(math.inf))
        await settle()
        assert not following.done()
        breaker.cancelled(probe=True)
        assert await following is True

    asyncio.run(everything())


def test_an_old_request_that_ends_badly_does_not_let_a_second_probe_through() -> None:
    clock = FakeClock()

    async def everything() -> None:
        breaker = opened(clock)
        assert await breaker.admit(math.inf)
        following = asyncio.create_task(breaker.admit(math.inf))
        await settle()
        breaker.cancelled(probe=False)
        breaker.failed("late", probe=False)
        await clock.sleep(200)
        await settle()
        assert not following.done()
        breaker.succeeded()
        assert await following is False

    asyncio.run(everything())
