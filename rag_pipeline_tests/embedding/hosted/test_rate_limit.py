"""No minute holds more than the provider allows."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.embedding.hosted.rate_limit import RateLimiter
from rag_pipeline_tests.embedding.hosted.support import FakeClock, settle

Passed = list[tuple[float, int, int]]
"""When, which, and with how many tokens."""


def passed(
    amounts: list[int], requests: int | None, tokens: int | None, gaps: list[float] | None = None
) -> tuple[Passed, FakeClock]:
    """Send all at once, or each so many seconds after the one before."""
    clock = FakeClock()
    through: Passed = []

    async def one(limiter: RateLimiter, number: int, amount: int) -> None:
        await limiter.admit(amount)
        through.append((clock.now, number, amount))

    async def everything() -> None:
        limiter = RateLimiter(requests, tokens, clock)
        tasks = []
        for number, amount in enumerate(amounts):
            if gaps is not None:
                await clock.sleep(gaps[number])
            tasks.append(asyncio.create_task(one(limiter, number, amount)))
        await asyncio.gather(*tasks)

    asyncio.run(everything())
    return through, clock


@given(
    data=st.data(),
    requests=st.none() | st.integers(1, 30),
    tokens=st.none() | st.integers(10, 5_000),
    count=st.integers(1, 40),
)
def test_in_no_minute_do_more_requests_or_tokens_pass_than_allowed(
    data: st.DataObject, requests: int | None, tokens: int | None, count: int
) -> None:
    amounts = data.draw(st.lists(st.integers(1, tokens or 100), min_size=count, max_size=count))
    gaps = data.draw(st.none() | st.lists(st.floats(0, 20, allow_nan=False), min_size=count, max_size=count))
    through, _ = passed(amounts, requests, tokens, gaps)
    assert [number for _, number, _ in through] == list(range(count)), "first come, first served"
    for start, _, _ in through:
        within = [amount for moment, _, amount in through if start <= moment < start + 60 - 1e-6]
        assert requests is None or len(within) <= requests
        assert tokens is None or sum(within) <= tokens


def test_an_allowance_is_used_in_full_and_spread_over_its_minute() -> None:
    through, _ = passed([1] * 120, requests=60, tokens=None)
    moments = [moment - 1000 for moment, _, _ in through]
    assert moments[59] < 60
    assert moments[-1] < 120
    assert max(moments.count(moment) for moment in moments) == 6


def test_a_text_above_the_limit_goes_alone_in_its_minute() -> None:
    through, _ = passed([30, 500, 30], requests=None, tokens=100)
    moments = [moment - 1000 for moment, _, _ in through]
    assert moments[0] == 0
    assert moments[1] - moments[0] >= 60
    assert moments[2] - moments[1] >= 60


def test_without_limits_nothing_waits() -> None:
    _, clock = passed([10**9] * 200, requests=None, tokens=None)
    assert clock.waits == []


def test_a_pause_holds_everyone_also_those_who_were_waiting() -> None:
    clock = FakeClock()
    moments: list[float] = []

    async def one(limiter: RateLimiter) -> None:
        await limiter.admit(1)
        moments.append(clock.now - 1000)

    async def everything() -> None:
        limiter = RateLimiter(10, None, clock)
        waiting = [asyncio.create_task(one(limiter)) for _ in range(2)]
        await settle()
        assert moments == [0], "the second waits for its turn in six seconds"
        limiter.pause(30)
        limiter.pause(5)
        assert limiter.paused_for == 30
        waiting.append(asyncio.create_task(one(limiter)))
        await asyncio.gather(*waiting)
        assert limiter.paused_for == 0

    asyncio.run(everything())
    assert moments == [0, 30, 36]


def test_who_gives_up_waiting_neither_counts_nor_blocks() -> None:
    clock = FakeClock()

    async def everything() -> None:
        limiter = RateLimiter(1, None, clock)
        await limiter.admit(1)
        waiting = [asyncio.create_task(limiter.admit(1)) for _ in range(3)]
        await settle()
        waiting[0].cancel()
        waiting[1].cancel()
        await waiting[2]
        assert clock.now == 1060

    asyncio.run(everything())
