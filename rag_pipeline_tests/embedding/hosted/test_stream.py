"""Every text is embedded and stored once, whatever the provider does, or it is said which was not."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from rag_pipeline.embedding.base import unit_rows
from rag_pipeline.embedding.budget import Budget
from rag_pipeline.embedding.hosted.embedder import HostedEmbedder
from rag_pipeline.embedding.hosted.stream import Batch, Embedded, Refused, embed_stream
from rag_pipeline.errors import (
    BudgetError,
    CredentialsError,
    EmbeddingError,
    ProviderError,
    RefusedTextError,
)
from rag_pipeline.hashing import text_hash
from rag_pipeline_tests.embedding.hosted.support import chain_of, embedder_on, tasks_left
from rag_pipeline_tests.provider_server import (
    Fault,
    ProviderServer,
    Request,
    cut,
    drop,
    html,
    not_finite,
    refuse_texts,
    short,
    shuffled,
    slow,
    status,
    wrong_width,
)

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .*aembedding. was never awaited:RuntimeWarning")
"""Of a request that LiteLLM had prepared when it was cancelled."""


def texts_of(count: int, words: int = 3) -> list[str]:
    return [f"text {number} " + "word " * (words - 2) for number in range(count)]


def batches_of(texts: Sequence[str], size: int = 64) -> Iterator[Batch]:
    for first in range(0, len(texts), size):
        part = list(texts[first : first + size])
        yield Batch([text_hash(text) for text in part], part)


class Stored:
    """A store that checks that it is called by one at a time."""

    def __init__(self, seconds: float = 0.0, then: Callable[[Stored], None] | None = None) -> None:
        self.texts: Counter[str] = Counter()
        self.vectors: dict[str, np.ndarray] = {}
        self.calls = 0
        self._seconds = seconds
        self._then = then
        self._busy = threading.Lock()

    def __call__(self, answered: list[Embedded]) -> None:
        assert self._busy.acquire(blocking=False), "the store was called while it was at work"
        try:
            time.sleep(self._seconds)
            self.calls += 1
            if self._then is not None:
                self._then(self)
            for embedded in answered:
                assert embedded.vectors.shape == (len(embedded.batch.texts), 64)
                assert [text_hash(text) for text in embedded.batch.texts] == embedded.batch.hashes
                self.texts.update(embedded.batch.texts)
                self.vectors.update(zip(embedded.batch.texts, embedded.vectors, strict=True))
        finally:
            self._busy.release()

    def check(self, server: ProviderServer, texts: Sequence[str]) -> None:
        """These texts are there once each, with the vectors that the server gives, scaled."""
        assert self.texts == Counter(texts)
        for text in texts:
            right = unit_rows(np.array([server.vector_of(text)], dtype=np.float32))[0]
            assert np.array_equal(self.vectors[text], right)


def embedded(
    embedder: HostedEmbedder, texts: Sequence[str], store: Stored, budget: Budget | None = None, size: int = 64
) -> list[Refused]:
    return embed_stream(embedder, batches_of(texts, size), budget or Budget(), store)


def test_all_texts_are_stored_once_under_every_fault_that_passes() -> None:
    faults = [status(429, retry_after="0"), shuffled(), cut(), slow(0.05), short(), status(429), html(), drop(), status(503)]

    def decide(request: Request) -> Fault | None:
        return faults[request.number // 3 % len(faults)] if request.number % 3 == 0 else None

    texts = texts_of(400)
    stored, budget = Stored(), Budget()
    with ProviderServer(faults=decide) as server:
        embedder = embedder_on(server, "litellm", batch_size=8, concurrency=3)
        assert embedded(embedder, texts, stored, budget) == []
        stored.check(server, texts)
        assert len(server.requests) > 60
    assert budget.spent_tokens == 3 * 400, "what was answered in vain is not known to cost"
    assert tasks_left() == []


def test_the_concurrency_is_reached_and_kept_also_while_things_are_stored() -> None:
    texts = texts_of(200)
    stored = Stored(seconds=0.01)
    with ProviderServer(delay=0.05) as server:
        embedded(embedder_on(server, batch_size=5, concurrency=4), texts, stored)
        stored.check(server, texts)
        assert server.most_at_once == 4
    assert 1 < stored.calls <= 40


def test_requests_hold_no_more_texts_and_tokens_than_they_may() -> None:
    texts = [f"text {number} " + "word " * (number * 7 % 40) for number in range(150)]
    stored = Stored()
    with ProviderServer() as server:
        embedder = embedder_on(server, batch_size=10, batch_tokens=120)
        embedded(embedder, texts, stored, size=70)
        stored.check(server, texts)
        for request in server.requests:
            assert len(request.texts) <= 10
            assert embedder.count_tokens(request.texts).sum() <= 120 or len(request.texts) == 1
        assert len(server.requests) < 75


def test_one_bad_text_among_64_is_refused_alone_and_named() -> None:
    for place in (0, 17, 63):
        texts = texts_of(64)
        texts[place] = "poison"
        stored = Stored()
        with ProviderServer(faults=refuse_texts(lambda text: text == "poison", message="no poison")) as server:
            refused = embedded(embedder_on(server, batch_size=64), texts, stored)
            stored.check(server, [text for text in texts if text != "poison"])
            # Two for each halving, and two for each worker that split off one text before the first answer came.
            assert len(server.requests) <= 2 * math.log2(64) + 2 * 6 + 3
        ((content_hash, text, reason),) = refused
        assert (content_hash, text) == (text_hash("poison"), "poison")
        assert reason.endswith("no poison")
        assert "\n" not in reason


def test_a_request_that_is_too_large_as_a_whole_is_halved_until_it_fits() -> None:
    texts = texts_of(64)
    stored = Stored()

    def too_large(request: Request) -> Fault | None:
        return status(413, "too large") if len(request.texts) > 10 else None

    with ProviderServer(faults=too_large) as server:
        assert embedded(embedder_on(server, batch_size=64), texts, stored) == []
        stored.check(server, texts)
        assert len(server.requests) <= 20


def test_several_bad_texts_in_many_batches_are_all_named() -> None:
    texts = texts_of(300)
    bad = [texts[place] for place in (3, 4, 99, 200, 299)]
    stored = Stored()
    with ProviderServer(faults=refuse_texts(lambda text: text in bad, 422)) as server:
        refused = embedded(embedder_on(server, batch_size=32), texts, stored)
        stored.check(server, [text for text in texts if text not in bad])
    assert sorted(text for _, text, _ in refused) == sorted(bad)


def test_a_text_whose_vector_is_none_is_asked_for_once_more_and_alone() -> None:
    texts = [*texts_of(31), "broken"]

    def broken(request: Request) -> Fault | None:
        return not_finite() if request.texts[-1] == "broken" else None

    stored = Stored()
    with ProviderServer(faults=broken) as server:
        refused = embedded(embedder_on(server, batch_size=32), texts, stored)
        stored.check(server, texts[:-1])
        assert [len(request.texts) for request in server.requests] == [32, 1]
    ((_, text, reason),) = refused
    assert text == "broken"
    assert "finite numbers" in reason


def test_a_vector_that_was_none_once_is_stored_when_it_comes() -> None:
    texts = texts_of(8)
    stored = Stored()
    with ProviderServer(faults=[not_finite()]) as server:
        assert embedded(embedder_on(server, batch_size=8), texts, stored) == []
        stored.check(server, texts)
        assert len(server.requests) == 2


@pytest.mark.parametrize("concurrency", [1, 8])
def test_when_everything_is_refused_it_stops_after_few_requests(concurrency: int) -> None:
    stored = Stored()
    with ProviderServer(faults=refuse_texts(lambda text: True, message="unknown parameter")) as server:
        with pytest.raises(RefusedTextError, match="unknown parameter; so it did for 3 texts, and the refresh stopped"):
            embedded(embedder_on(server, batch_size=64, concurrency=concurrency), texts_of(5_000), stored)
        assert len(server.requests) <= 6 + 3 * concurrency
    assert not stored.texts
    assert tasks_left() == []


def test_many_refused_texts_stop_it_although_others_are_embedded() -> None:
    stored = Stored()
    with (
        ProviderServer(faults=refuse_texts(lambda text: int(text.split()[1]) % 3 == 0)) as server,
        pytest.raises(RefusedTextError, match="for 20 texts"),
    ):
        embedded(embedder_on(server, batch_size=16), texts_of(1_000), stored)
    assert stored.texts


@pytest.mark.parametrize(
    ("fault", "error", "told"),
    [
        (status(401, "bad key"), CredentialsError, "refused the key"),
        (wrong_width(32), EmbeddingError, "32 dimensions; expected 64"),
        (status(404), EmbeddingError, "not known there"),
        (status(429, code_name="insufficient_quota", message="insufficient_quota"), EmbeddingError, "paid first"),
    ],
    ids=["401", "width", "404", "quota"],
)
def test_what_no_repetition_helps_stops_it_at_once_with_its_siblings(
    fault: Fault, error: type[EmbeddingError], told: str
) -> None:
    def decide(request: Request) -> Fault | None:
        return fault if request.number == 3 else slow(60)

    stored = Stored()
    with ProviderServer(faults=decide) as server:
        embedder = embedder_on(server, batch_size=8, concurrency=4)
        embedder.check_credentials()  # imports LiteLLM
        begun = time.monotonic()
        with pytest.raises(error, match=told) as caught:
            embedded(embedder, texts_of(500), stored)
        assert time.monotonic() - begun < 30
        assert len(server.requests) <= 4 + 1
        assert tasks_left() == []
        assert {type(link).__module__.split(".")[0] for link in chain_of(caught.value)} == {"rag_pipeline"}


def test_a_provider_that_goes_away_ends_it_with_what_came_stored() -> None:
    texts = texts_of(80)
    stored = Stored()
    with ProviderServer(faults=[None] * 4 + [status(503, "gone")] * 100) as server:
        embedder = embedder_on(server, batch_size=8, concurrency=2, retry_seconds=0.3)
        with pytest.raises(ProviderError, match="gone"):
            embedded(embedder, texts, stored)
        assert sum(stored.texts.values()) == 32
        assert set(stored.texts) == set(server.answered_texts)
    assert tasks_left() == []


@pytest.mark.parametrize("limit", [0, 1, 50, 137, 400])
def test_a_budget_is_never_passed_and_what_it_bought_is_kept(limit: int) -> None:
    texts = texts_of(200, words=6)
    stored, budget = Stored(), Budget(tokens=limit)
    with ProviderServer() as server:
        embedder = embedder_on(server, batch_size=10, concurrency=3)
        with pytest.raises(BudgetError) as caught:
            embedded(embedder, texts, stored, budget)
        assert budget.spent_tokens <= limit
        assert budget.spent_tokens == 6 * sum(stored.texts.values())
        assert set(stored.texts) == set(server.answered_texts)
        left = limit - budget.spent_tokens
        assert left < embedder.count_tokens(texts).max(), "the rest was spent in smaller requests"
    assert f"{budget.spent_tokens} tokens" in str(caught.value)
    assert tasks_left() == []


def test_a_budget_that_is_enough_is_enough() -> None:
    texts = texts_of(100)
    stored = Stored()
    with ProviderServer() as server:
        embedder = embedder_on(server, batch_size=10)
        needed = int(embedder.count_tokens(texts).sum())
        assert embedded(embedder, texts, stored, Budget(tokens=needed)) == []
        stored.check(server, texts)


def test_reservations_of_requests_under_way_do_not_end_a_budget_that_they_leave() -> None:
    """The tokens are counted too high before a request and rightly after it."""
    texts = ["antidisestablishmentarianism " * 20 + str(number) for number in range(12)]
    stored = Stored()
    with ProviderServer(delay=0.05) as server:
        embedder = embedder_on(server, batch_size=2, concurrency=4)
        each = int(embedder.count_tokens(texts).max())
        assert each > 3 * 21
        budget = Budget(tokens=10 * 21 + 2 * each)
        assert embedded(embedder, texts, stored, budget) == []
        stored.check(server, texts)


def test_a_store_that_fails_ends_it_with_its_error() -> None:
    def full(store: Stored) -> None:
        if store.calls == 3:
            raise OSError("no space left")

    stored = Stored(then=full)
    with ProviderServer() as server, pytest.raises(OSError, match="no space left"):
        embedded(embedder_on(server, batch_size=4, concurrency=4), texts_of(400), stored)
    assert sum(stored.texts.values()) < 400
    assert max(stored.texts.values()) == 1
    assert tasks_left() == []


def test_texts_that_cannot_be_read_end_it_with_their_error() -> None:
    def read() -> Iterator[Batch]:
        yield from batches_of(texts_of(64), 16)
        raise ValueError("torn page")

    stored = Stored()
    with ProviderServer() as server, pytest.raises(ValueError, match="torn page"):
        embed_stream(embedder_on(server, batch_size=16), read(), Budget(), stored)
    assert tasks_left() == []


def test_texts_are_read_by_one_at_a_time_and_by_nobody_when_it_is_over() -> None:
    reading = threading.Lock()
    over = threading.Event()

    def read() -> Iterator[Batch]:
        for batch in batches_of(texts_of(64), 4):
            assert reading.acquire(blocking=False)
            assert not over.is_set()
            time.sleep(0.05)
            reading.release()
            yield batch

    with ProviderServer(faults=[status(401)] * 50) as server, pytest.raises(CredentialsError):
        embed_stream(embedder_on(server, batch_size=4), read(), Budget(), Stored())
    assert not reading.locked(), "no thread still reads"
    over.set()
    time.sleep(0.1)


def test_no_texts_are_no_request_and_nothing_stored() -> None:
    stored = Stored()
    with ProviderServer() as server:
        assert embedded(embedder_on(server), [], stored) == []
        assert server.requests == []
    assert stored.calls == 0


def test_a_missing_key_is_told_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> Iterator[Batch]:
        pytest.fail("it was read")
        yield Batch([], [])

    monkeypatch.delenv("OPENAI_API_KEY")
    with ProviderServer() as server:
        with pytest.raises(CredentialsError, match="OPENAI_API_KEY"):
            embed_stream(embedder_on(server), read(), Budget(), Stored())
        assert server.requests == []


@pytest.mark.skipif(os.name != "posix", reason="sends a signal to a thread")
def test_an_interrupt_leaves_stored_what_was_answered_but_a_batch_a_worker() -> None:
    main = threading.get_ident()

    def interrupt(store: Stored) -> None:
        if store.calls == 5:
            signal.pthread_kill(main, signal.SIGINT)

    stored = Stored(seconds=0.01, then=interrupt)
    with ProviderServer(delay=0.02) as server:
        with pytest.raises(KeyboardInterrupt):
            embedded(embedder_on(server, batch_size=4, concurrency=4), texts_of(2_000), stored)
        kept = Counter(stored.texts)
        answered = server.answered_texts
        assert tasks_left() == []
        time.sleep(0.1)
        assert stored.texts == kept, "nothing is stored when it is over"
    assert 20 <= sum(kept.values()) < 2_000
    assert max(kept.values()) == 1
    assert len(answered - kept) <= 4 * 6


def test_an_interrupted_stream_goes_on_where_it_was() -> None:
    """What the caller has is not asked for again: it hands over the rest."""
    texts = texts_of(120)
    stored = Stored()
    with ProviderServer(faults=[None] * 5 + [status(401)] + [None] * 100) as server:
        embedder = embedder_on(server, batch_size=8, concurrency=2)
        with pytest.raises(CredentialsError):
            embedded(embedder, texts, stored)
        assert embedded(embedder, [text for text in texts if text not in stored.texts], stored) == []
        stored.check(server, texts)
