"""Embeds a stream of texts with several requests at once, and stores what comes back as it comes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_pipeline.embedding.budget import Budget
from rag_pipeline.embedding.hosted.background import run
from rag_pipeline.embedding.hosted.calls import Answer, CallError
from rag_pipeline.embedding.hosted.embedder import HostedEmbedder, requests_of
from rag_pipeline.errors import BudgetError, ProviderError, RefusedTextError

_MOST_REFUSED = 20
"""So many refused texts say that something else is wrong than the texts."""


class Batch(NamedTuple):
    """Texts and their content hashes."""

    hashes: list[str]
    texts: list[str]

    def span(self, first: int, last: int) -> Batch:
        return Batch(self.hashes[first:last], self.texts[first:last])

    def halves(self) -> tuple[Batch, Batch]:
        """The second half, then the first."""
        middle = len(self.texts) // 2
        return self.span(middle, len(self.texts)), self.span(0, middle)

    def at(self, places: Sequence[int]) -> Batch:
        return Batch([self.hashes[place] for place in places], [self.texts[place] for place in places])


class Embedded(NamedTuple):
    """Vectors of a batch, shape ``(len(batch.texts), dimensions)``."""

    batch: Batch
    vectors: npt.NDArray[np.float32]


Store = Callable[[list[Embedded]], None]


class Refused(NamedTuple):
    """A text that the provider does not embed, alone in its request, and what it said."""

    content_hash: str
    text: str
    reason: str


def embed_stream(embedder: HostedEmbedder, batches: Iterator[Batch], budget: Budget, store: Store) -> list[Refused]:
    """Embed all batches. What was answered is stored before the worker that asked goes on.

    ``batches`` and ``store`` are called in other threads, each by one at a time. A request that the provider refuses is
    halved until the texts that it refuses stand alone; these are returned.

    Raises:
        CredentialsError: the key is missing or was refused.
        BudgetError: the next request might pass the budget; all before it are stored.
        ProviderError: the provider failed for too long.
        EmbeddingError: it refuses everything, or its vectors are of another width.
    """
    embedder.check_credentials()
    try:
        return run(_Stream(embedder, batches, budget, store).run())
    except ProviderError as error:
        raise ProviderError(f"{error}. What was embedded is kept: refresh again later") from None


class _Stream:
    def __init__(self, embedder: HostedEmbedder, batches: Iterator[Batch], budget: Budget, store: Store) -> None:
        self._embedder = embedder
        self._batches = batches
        self._budget = budget
        self._writer = _Writer(store)
        self._turn = asyncio.Lock()
        self._waiting: deque[Batch] = deque()
        self._refused: list[Refused] = []
        self._answered = 0
        self._exhausted = False
        self._under_way = 0
        self._settled = asyncio.Event()
        self._reading: asyncio.Task[Batch | None] | None = None

    async def run(self) -> list[Refused]:
        # More workers than places at the provider: some of them wait for what they were given to be stored.
        count = self._embedder.concurrency + max(self._embedder.concurrency // 2, 1)
        workers = [asyncio.create_task(self._work()) for _ in range(count)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            await self._writer.close()
            if self._reading is not None:
                await asyncio.gather(self._reading, return_exceptions=True)
        if self._exhausted:
            raise self._budget.exhausted()
        return self._refused

    async def _work(self) -> None:
        while (batch := await self._next()) is not None:
            tokens = int(self._embedder.count_tokens(batch.texts).sum())
            if not await self._reserve(tokens):
                self._spend_the_rest(batch)
                continue
            answer, spent = None, 0
            try:
                answer = await self._embedder.request(batch.texts, tokens)
                spent = answer.tokens if answer.tokens is not None else tokens
            except CallError as failure:
                self._sort(batch, failure)
            finally:
                self._budget.settle(tokens, spent)
                self._under_way -= 1
                self._settled.set()
            if answer is not None:
                await self._keep(batch, answer)

    async def _next(self) -> Batch | None:
        """A batch that fits into a request; None at the end, and when the budget is used up."""
        async with self._turn:
            if self._exhausted:
                return None
            if not self._waiting:
                self._reading = asyncio.create_task(asyncio.to_thread(next, self._batches, None))
                # A thread cannot be cancelled: `run` waits for it, so that the caller has its iterator for itself again.
                batch = await asyncio.shield(self._reading)
                if batch is None:
                    return None
                counts = self._embedder.count_tokens(batch.texts)
                spans = requests_of(counts, self._embedder.batch_size, self._embedder.batch_tokens)
                self._waiting.extend(batch.span(*span) for span in spans)
            return self._waiting.popleft()

    async def _reserve(self, tokens: int) -> bool:
        """Take so much of the budget; False when it is not there although nothing is under way any more.

        Requests under way may turn out to take less than was reserved for them.
        """
        while True:
            try:
                self._budget.reserve(tokens)
            except BudgetError:
                if not self._under_way:
                    return False
                self._settled.clear()
                await self._settled.wait()
            else:
                self._under_way += 1
                return True

    def _spend_the_rest(self, batch: Batch) -> None:
        if len(batch.texts) == 1:
            self._exhausted = True
        else:
            self._waiting.extendleft(batch.halves())

    async def _keep(self, batch: Batch, answer: Answer) -> None:
        """Store the good rows; texts whose row is no vector are asked for again, each alone."""
        good = np.isfinite(answer.vectors).all(axis=1) & answer.vectors.any(axis=1)
        if good.any():
            self._answered += 1
            kept = batch.at(np.flatnonzero(good).tolist())
            await self._writer.put(Embedded(kept, answer.vectors[good]))
        bad = np.flatnonzero(~good).tolist()
        if bad and len(batch.texts) == 1:
            self._refuse(
                batch, f"{self._embedder.name} answered a vector of zeros, or of something else than finite numbers"
            )
        else:
            self._waiting.extendleft(batch.at([place]) for place in bad)

    def _sort(self, batch: Batch, failure: CallError) -> None:
        """A refused request is halved, to find the texts that it was refused for; any other failure ends the refresh."""
        if failure.kind != "refused":
            raise failure.error from None
        if len(batch.texts) == 1:
            self._refuse(batch, str(failure.error))
        elif self._answered:
            self._waiting.extendleft(batch.halves())
        else:
            # Who refuses one text of the first requests alone refuses most likely all of them.
            self._waiting.extendleft((batch.span(1, len(batch.texts)), batch.span(0, 1)))

    def _refuse(self, batch: Batch, reason: str) -> None:
        self._refused.append(Refused(batch.hashes[0], batch.texts[0], reason))
        # Until something was answered, the first refusals are about the request, not about its texts.
        if len(self._refused) >= (_MOST_REFUSED if self._answered else 3):
            raise RefusedTextError(f"{reason}; so it did for {len(self._refused)} texts, and the refresh stopped")


class _Writer:
    """Stores in a thread, all that has come in the meantime at once: a commit costs the same for one batch as for ten."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pending: list[tuple[Embedded, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def put(self, embedded: Embedded) -> None:
        """Returns when it is stored."""
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending.append((embedded, stored))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        # A worker that is cancelled must not take the batches of others with it.
        await asyncio.shield(stored)

    async def _write(self) -> None:
        while self._pending:
            taken, self._pending = self._pending, []
            try:
                await asyncio.to_thread(self._store, [embedded for embedded, _ in taken])
            except BaseException as error:
                for _, stored in taken:
                    if not stored.done():
                        stored.set_exception(error)
                        stored.exception()  # whoever waited may be gone
                raise
            for _, stored in taken:
                if not stored.done():
                    stored.set_result(None)

    async def close(self) -> None:
        """Wait until everything that was put is stored, or could not be."""
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)
