"""Sends texts to an embedder, on this machine or hosted, stores what comes back, and keeps account of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_pipeline.contracts import EmbedderIdentity, EmbeddingSpend
from rag_pipeline.embedding import Embedder
from rag_pipeline.embedding.base import CountingEmbedder
from rag_pipeline.embedding.budget import Budget
from rag_pipeline.embedding.cache import EmbeddingCache
from rag_pipeline.embedding.hosted.embedder import HostedEmbedder
from rag_pipeline.embedding.hosted.stream import Batch, Embedded, Refused, embed_stream
from rag_pipeline.refresh.context import RefreshContext
from rag_pipeline.refresh.embedding_record import EmbeddingRecord, read_embedding_record, write_embedding_record
from rag_pipeline.refresh.progress import Reporter

Store = Callable[[pa.Array, npt.NDArray[np.float32]], None]
"""Puts content hashes and their vectors into the cache."""


class SomeRefusedError(Exception):
    """Everything is embedded but these."""

    def __init__(self, texts: list[Refused]) -> None:
        super().__init__(f"{len(texts)} texts were refused")
        self.texts = texts


class Spending:
    """What this refresh has spent, and what was spent since the last snapshot, crashes included."""

    def __init__(self, context: RefreshContext) -> None:
        self._context = context
        self._before = read_embedding_record(context.store)
        self._texts = 0
        self._budgets: list[Budget] = []

    @property
    def tokens(self) -> int:
        return sum(budget.spent_tokens for budget in self._budgets)

    @property
    def cost_usd(self) -> float | None:
        """None when tokens were spent whose price is not known."""
        return _sum(budget.spent_usd if budget.spent_tokens else 0.0 for budget in self._budgets)

    @property
    def of_this_refresh(self) -> EmbeddingSpend:
        return EmbeddingSpend(texts=self._texts, tokens=self.tokens, cost_usd=self.cost_usd)

    def budget(self, usd_per_token: float | None) -> Budget:
        """What another embedder of the chain may spend: the budget less what context lines and those before it took."""
        limits = self._context.corpus.budget
        tokens, usd = limits.tokens_per_refresh, limits.usd_per_refresh
        line_tokens, line_usd = self._context.spent_on_context_lines
        budget = Budget(
            tokens=None if tokens is None else max(tokens - line_tokens - self.tokens, 0),
            usd=None if usd is None else max(usd - line_usd - (self.cost_usd or 0.0), 0.0),
            usd_per_token=usd_per_token,
        )
        self._budgets.append(budget)
        return budget

    def add(self, identity: EmbedderIdentity, texts: int) -> None:
        """Texts were stored; writes down what was spent so far, so that a crash does not forget it."""
        self._texts += texts
        self.finish(identity)

    def finish(self, identity: EmbedderIdentity) -> None:
        earlier = self._before.spent if self._before is not None else EmbeddingSpend()
        here = self.of_this_refresh
        spent = EmbeddingSpend(
            texts=earlier.texts + here.texts,
            tokens=earlier.tokens + here.tokens,
            cost_usd=_sum((earlier.cost_usd, here.cost_usd)),
        )
        write_embedding_record(self._context.store, EmbeddingRecord(identity=identity, spent=spent))


def _sum(amounts: Iterable[float | None]) -> float | None:
    """None as soon as one of them is not known."""
    known = list(amounts)
    return None if None in known else float(sum(amount for amount in known if amount is not None))


def embed_texts(
    embedder: Embedder, batches: Iterator[pa.RecordBatch], cache: EmbeddingCache, spending: Spending, reporter: Reporter
) -> None:
    """Embed batches of (content_hash, indexed_text).

    Raises:
        SomeRefusedError: all others are embedded.
        BudgetError, ProviderError, EmbeddingError, MissingExtraError: as the embedder says.
    """

    def store(hashes: pa.Array, vectors: npt.NDArray[np.float32]) -> None:
        cache.add(hashes, vectors)
        spending.add(embedder.identity, len(hashes))
        reporter.advance(len(hashes))

    if isinstance(embedder, HostedEmbedder):
        _ask(embedder, batches, spending.budget(embedder.usd_per_token), store)
    else:
        # A model on this machine costs nothing; its tokens are counted for the record.
        _embed_here(embedder, batches, spending.budget(0.0), store)


def _ask(embedder: HostedEmbedder, batches: Iterator[pa.RecordBatch], budget: Budget, store: Store) -> None:
    def store_answers(answered: list[Embedded]) -> None:
        hashes = [content_hash for embedded in answered for content_hash in embedded.batch.hashes]
        store(pa.array(hashes, pa.string()), np.concatenate([embedded.vectors for embedded in answered]))

    texts = (Batch(batch["content_hash"].to_pylist(), batch["indexed_text"].to_pylist()) for batch in batches)
    refused = embed_stream(embedder, texts, budget, store_answers)
    if refused:
        raise SomeRefusedError(refused)


def _embed_here(embedder: Embedder, batches: Iterator[pa.RecordBatch], budget: Budget, store: Store) -> None:
    """Embed batch after batch. While one is embedded, the one before it is stored and the next one is read."""
    with ThreadPoolExecutor(1, "read-texts") as reading, ThreadPoolExecutor(1, "store-vectors") as storing:
        stored: Future[None] | None = None
        upcoming = reading.submit(next, batches, None)
        while (batch := upcoming.result()) is not None:
            upcoming = reading.submit(next, batches, None)
            texts = batch["indexed_text"].to_pylist()
            counts = embedder.tokenizer.count(texts) if budget.limited else np.zeros(len(texts), dtype=np.int64)
            fitting = _fitting(counts, budget)
            reserved = int(counts[:fitting].sum())
            budget.reserve(reserved)
            if fitting:
                vectors, tokens = _embedded(embedder, texts[:fitting])
                budget.settle(reserved, tokens)
                if stored is not None:
                    stored.result()
                stored = storing.submit(store, batch["content_hash"][:fitting], vectors)
            if fitting < len(texts):
                if stored is not None:
                    stored.result()
                raise budget.exhausted(int(counts[fitting]))
        if stored is not None:
            stored.result()


def _fitting(counts: npt.NDArray[np.int64], budget: Budget) -> int:
    """How many of the texts, from the first on, the budget has room for."""
    left = budget.left
    return len(counts) if left is None else int(np.searchsorted(np.cumsum(counts), left, side="right"))


def _embedded(embedder: Embedder, texts: list[str]) -> tuple[npt.NDArray[np.float32], int]:
    """Vectors and the number of tokens."""
    if isinstance(embedder, CountingEmbedder):
        return embedder.embed_and_count(texts)
    return embedder.embed_documents(texts), int(embedder.tokenizer.count(texts).sum())
