"""Every request is sent as often as may help, and no more."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from rag_pipeline.embedding.hosted.calls import Answer, CallError, FailureKind
from rag_pipeline.embedding.hosted.gate import Gate
from rag_pipeline.errors import EmbeddingError, ProviderError
from rag_pipeline_tests.embedding.hosted.support import FakeClock, settle

ANSWER = Answer(np.ones((1, 2), dtype=np.float32), 3)


def failure(kind: FailureKind, retry_after: float | None = None) -> CallError:
    error = EmbeddingError("not so") if kind in ("refused", "terminal") else ProviderError("it failed")
    return CallError(kind, error, retry_after)


class Provider:
    """Answers what it was given, in order, then properly; notes when it was asked."""

    def __init__(self, clock: FakeClock, *outcomes: CallError | None, seconds: float = 0.0) -> None:
        self.clock = clock
        self.outcomes = list(outcomes)
        self.seconds = seconds
        self.asked: list[float] = []
        self.under_way = 0
        self.most_at_once = 0

    async def send(self) -> Answer:
        self.asked.append(self.clock.now - 1000)
        outcome = self.outcomes.pop(0) if self.outcomes else None
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        try:
            if self.seconds:
                await self.clock.sleep(self.seconds)
            else:
                await asyncio.sleep(0)
        finally:
            self.under_way -= 1
        if outcome is not None:
            raise outcome
        return ANSWER


def on_a_gate(test: Callable[[Gate, FakeClock], Awaitable[None]], concurrency: int = 4, requests: int | None = None) -> None:
    clock = FakeClock()

    async def everything() -> None:
        await test(Gate("openai/small", concurrency, requests, clock=clock), clock)

    asyncio.run(everything())


def test_a_call_is_tried_until_it_succeeds() -> None:
    async def test(gate: Gate, clock: FakeClock) -> None:
        provider = Provider(clock, failure("transient"), failure("throttled"), failure("transient"))
        assert await gate.call(provider.send, 1, 300) is ANSWER
        assert len(provider.asked) == 4

    on_a_gate(test)


@pytest.mark.parametrize("kind", ["refused", "terminal"])
def test_what_no_repetition_helps_is_raised_at_once(kind: FailureKind) -> None:
    async def test(gate: Gate, clock: FakeClock) -> None:
        provider = Provider(clock, failure(kind))
        with pytest.raises(CallError) as caught:
            await gate.call(provider.send, 1, 300)
        assert caught.value.kind == kind
        assert len(provider.asked) == 1
        assert clock.waits == []

    on_a_gate(test)


def test_waits_double_and_each_is_shortened_at_random() -> None:
    shares: list[float] = []

    async def test(gate: Gate, clock: FakeClock) -> None:
        await gate.call(Provider(clock, *[failure("transient")] * 4).send, 1, 300)
        shares.extend(wait / (0.5 * 2**place) for place, wait in enumerate(clock.waits))

    for _ in range(25):
        on_a_gate(test)
    assert len(shares) == 100
    assert all(0.5 <= share <= 1 for share in shares)
    assert len({round(share, 3) for share in shares}) > 20


def test_throttled_for_ever_waits_ever_longer_and_ends_with_the_time_budget() -> None:
    async def test(gate: Gate, clock: FakeClock) -> None:
        provider = Provider(clock, *[failure("throttled", 0.0)] * 1000)
        with pytest.raises(ProviderError, match=r"it failed; tried \d+ times"):
            await gate.call(provider.send, 1, 300)
        assert 8 <= len(provider.asked) <= 20, "also where the provider asks to wait no time at all"
        assert clock.now - 1000 <= 300
        assert await gate.call(Provider(clock).send, 1, 300) is ANSWER, "throttling never opens the breaker"

    on_a_gate(test)


@pytest.mark.parametrize("kind", ["throttled", "transient"])
def test_a_pause_that_was_asked_for_is_kept_and_holds_the_siblings_too(kind: FailureKind) -> None:
    async def test(gate: Gate, clock: FakeClock) -> None:
        first, second = Provider(clock, failure(kind, 7.0)), Provider(clock)
        call = asyncio.create_task(gate.call(first.send, 1, 300))
        await settle()
        await gate.call(second.send, 1, 300)
        await call
        assert first.asked[0] == 0
        assert 7 <= first.asked[1] < 8
        assert 7 <= second.asked[0] < 8

    on_a_gate(test)


def test_a_pause_longer_than_the_time_budget_gives_up_at_once_for_everyone() -> None:
    async def test(gate: Gate, clock: FakeClock) -> None:
        provider = Provider(clock, failure("throttled", 400.0))
        with pytest.raises(ProviderError, match="it asks to wait 400 s; tried once"):
            await gate.call(provider.send, 1, 300)
        again = time.strftime("%H:%M:%S", time.localtime(1300))
        with pytest.raises(ProviderError, match=f"asked for a pause; it is not asked again before {again}"):
            await gate.call(provider.send, 1, 200)
        assert clock.waits == []
        assert provider.asked == [0]
        await clock.sleep(101)
        await gate.call(provider.send, 1, 300)
        assert provider.asked == [0, 300], "others wait no longer than five minutes for one request's sake"

    on_a_gate(test)


def test_whoever_has_little_time_does_not_queue_behind_those_who_wait_out_a_pause() -> None:
    async def test(gate: Gate, clock: FakeClock) -> None:
        with pytest.raises(ProviderError):
            await gate.call(Provider(clock, failure("throttled", 60.0)).send, 1, 0)
        patient = asyncio.create_task(gate.call(Provider(clock).send, 1, 300))
        await settle()
        with pytest.raises(ProviderError, match="asked for a pause"):
            await gate.call(Provider(clock).send, 1, 10)
        assert clock.now == 1000
        assert await patient is ANSWER
        assert clock.now == 1060

    on_a_gate(test, concurrency=1)


def test_the_time_budget_counts_from_the_first_try_of_a_call() -> None:
    async def test(gate: Gate, clock: FakeClock) -> None:
        busy = asyncio.create_task(gate.call(Provider(clock, seconds=100).send, 1, 10))
        await settle()
        late = Provider(clock, failure("transient"))
        assert await gate.call(late.send, 1, 10) is ANSWER
        await busy
        assert late.asked[0] == 100
        assert len(late.asked) == 2

    on_a_gate(test, concurrency=1)


def test_the_limit_of_requests_holds_for_repetitions_too() -> None:
    async def test(gate: Gate, clock: FakeClock) -> None:
        provider = Provider(clock, failure("transient"), failure("transient"))
        await gate.call(provider.send, 1, 300)
        assert provider.asked == [0, 60, 120]

    on_a_gate(test, requests=1)


def test_never_more_requests_than_places_are_under_way() -> None:
    async def test(gate: Gate, clock: FakeClock) -> None:
        provider = Provider(clock, seconds=1)
        await asyncio.gather(*(gate.call(provider.send, 1, 300) for _ in range(40)))
        assert provider.most_at_once == 4
        assert clock.now == 1010

    on_a_gate(test)


def test_a_dead_provider_is_asked_five_times_then_left_alone_then_asked_once() -> None:
    async def test(gate: Gate, clock: FakeClock) -> None:
        provider = Provider(clock, *[failure("transient")] * 1000, seconds=0.01)
        calls = [asyncio.create_task(gate.call(provider.send, 1, 60)) for _ in range(30)]
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(error, ProviderError) for error in ended)
        assert any("has failed" in str(error) and "not asked again before" in str(error) for error in ended)
        first = [moment for moment in provider.asked if moment < 1.9]
        assert len(first) <= 8, "five, and those that were under way beside the fifth"
        later = [moment for moment in provider.asked if moment >= 1.9]
        assert 1 <= len(later) <= 6
        assert all(after - before >= 3.9 for before, after in itertools.pairwise(later))

    on_a_gate(test)


def test_when_it_is_back_one_success_lets_everyone_go_on() -> None:
    async def test(gate: Gate, clock: FakeClock) -> None:
        for _ in range(5):
            with pytest.raises(ProviderError):
                await gate.call(Provider(clock, failure("transient")).send, 1, 0)
        provider = Provider(clock, seconds=1)
        answers = await asyncio.gather(*(gate.call(provider.send, 1, 300) for _ in range(9)))
        assert answers == [ANSWER] * 9
        assert provider.asked == [2] + [3] * 4 + [4] * 4

    on_a_gate(test)


@pytest.mark.parametrize("kind", ["refused", "throttled"])
def test_a_provider_that_refuses_or_slows_down_is_not_taken_for_dead(kind: FailureKind) -> None:
    async def test(gate: Gate, clock: FakeClock) -> None:
        for _ in range(20):
            with pytest.raises((CallError, ProviderError)):
                await gate.call(Provider(clock, failure(kind)).send, 1, 0)
        await clock.sleep(1)
        before = clock.now
        assert await gate.call(Provider(clock).send, 1, 300) is ANSWER
        assert clock.now == before

    on_a_gate(test)


def test_calls_cancelled_anywhere_leave_the_gate_as_it_was() -> None:
    async def test(gate: Gate, clock: FakeClock) -> None:
        provider = Provider(clock, seconds=50)
        for rounds in range(12):
            calls = [asyncio.create_task(gate.call(provider.send, 1, 300)) for _ in range(6)]
            for _ in range(rounds):
                await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        assert provider.under_way == 0
        provider.seconds, begun = 1, clock.now
        await asyncio.gather(*(gate.call(provider.send, 1, 300) for _ in range(8)))
        assert provider.most_at_once == 4
        assert clock.now - begun == 2, "all four places are there"

    on_a_gate(test)


def test_a_cancelled_probe_and_cancelled_sleepers_leave_no_stuck_breaker() -> None:
    async def test(gate: Gate, clock: FakeClock) -> None:
        dying = Provider(clock, *[failure("transient")] * 5)
        sleeping = [asyncio.create_task(gate.call(dying.send, 1, 300)) for _ in range(5)]
        await settle()
        assert len(dying.asked) >= 4
        await clock.sleep(9)
        for call in sleeping[1:]:
            call.cancel()
        probe = Provider(clock, seconds=1000)
        probing = asyncio.create_task(gate.call(probe.send, 1, 300))
        sleeping[0].cancel()
        await clock.sleep(5)
        assert len(probe.asked) == 1
        probing.cancel()
        assert await gate.call(Provider(clock).send, 1, 300) is ANSWER

    on_a_gate(test, concurrency=5)


def test_a_long_wait_is_told_with_its_reason_and_end(caplog: pytest.LogCaptureFixture) -> None:
    async def test(gate: Gate, clock: FakeClock) -> None:
        await gate.call(Provider(clock, failure("throttled", 30.0)).send, 1, 300)

    on_a_gate(test)
    assert caplog.messages == [f"it failed; next try at {time.strftime('%H:%M:%S', time.localtime(1030))}"]


def test_giving_up_shows_no_exception_of_anyone_elses() -> None:
    async def test(gate: Gate, clock: FakeClock) -> None:
        with pytest.raises(ProviderError) as caught:
            await gate.call(Provider(clock, failure("transient")).send, 1, 0)
        assert caught.value.__suppress_context__

    on_a_gate(test)
