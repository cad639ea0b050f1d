"""A hosted model as an embedder."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

import numpy as np
import numpy.typing as npt

from rag_pipeline.contracts import EmbedderIdentity, Tokenizer
from rag_pipeline.embedding.base import unit_rows
from rag_pipeline.embedding.hosted.background import run
from rag_pipeline.embedding.hosted.calls import Answer, CallError, Client, Purpose
from rag_pipeline.embedding.hosted.gate import Gate
from rag_pipeline.errors import EmbeddingError, ProviderError

_QUERY_RETRY_SECONDS = 10.0
"""People wait for a search; a refresh has more time."""


class HostedEmbedder:
    """Embeds by asking a provider. Safe to use from several threads.

    Args:
        client: asks the model that documents are embedded with.
        query_client: asks the one for queries, which may be another model of the same space.
        gate: what all requests to this provider pass, on the loop of `background`.
        tokenizer: counts tokens; an estimate where the model's own is not public.
        max_tokens: what a text may have, prompts apart; None where nobody says.
        usd_per_token: None where no price is known.
        batch_size, batch_tokens: what one request may hold.
    """

    def __init__(
        self,
        identity: EmbedderIdentity,
        client: Client,
        query_client: Client,
        gate: Gate,
        tokenizer: Tokenizer,
        *,
        max_tokens: int | None,
        usd_per_token: float | None,
        batch_size: int,
        batch_tokens: int,
        concurrency: int,
        retry_seconds: float,
    ) -> None:
        self.identity = identity
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.usd_per_token = usd_per_token
        self.batch_size = batch_size
        self.batch_tokens = batch_tokens
        self.concurrency = concurrency
        self.gate = gate
        self._client = client
        self._query_client = query_client
        self._retry_seconds = retry_seconds
        self._prompt_tokens = int(tokenizer.count([identity.document_prompt])[0]) if identity.document_prompt else 0

    @property
    def name(self) -> str:
        return self._client.name

    def check_credentials(self) -> None:
        """
        Raises:
            CredentialsError: a key is missing; the message names its variable.
            MissingExtraError: the library that sends requests is not installed.
        """
        self._client.check_credentials()

    def count_tokens(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """About how many tokens each text has with its prompt, shape ``(len(texts),)``."""
        return self.tokenizer.count(texts) + self._prompt_tokens

    async def request(self, texts: Sequence[str], tokens: int) -> Answer:
        """Embed documents that fit into one request; to be awaited on the loop of `background`.

        Vectors are scaled to length 1. Rows that are no vector hold NaN.

        Raises:
            CallError: the provider refuses these texts, or all of them.
            ProviderError: it failed for too long.
        """
        return await self._ask(self._client, texts, "document", tokens, self._retry_seconds)

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        vectors = np.zeros((len(texts), self.identity.dimensions), dtype=np.float32)
        self.check_credentials()
        for first, last in requests_of(self.count_tokens(texts), self.batch_size, self.batch_tokens):
            tokens = int(self.count_tokens(texts[first:last]).sum())
            vectors[first:last] = _finite(self._client, run(_or_error(self.request(texts[first:last], tokens))))
        return vectors

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        self._query_client.check_credentials()
        tokens = int(self.tokenizer.count([text])[0])
        try:
            answer = run(_or_error(self._ask(self._query_client, [text], "query", tokens, _QUERY_RETRY_SECONDS)))
        except ProviderError as error:
            raise ProviderError(f"{error}. Searches in mode bm25 need no provider") from None
        return np.asarray(_finite(self._query_client, answer)[0])

    async def _ask(
        self, client: Client, texts: Sequence[str], purpose: Purpose, tokens: int, retry_seconds: float
    ) -> Answer:
        prompt = self.identity.document_prompt if purpose == "document" else self.identity.query_prompt
        prompted = [prompt + text for text in texts] if prompt else list(texts)
        answer = await self.gate.call(lambda: client.request(prompted, purpose), tokens, retry_seconds)
        return Answer(unit_rows(answer.vectors), answer.tokens)


def requests_of(tokens: npt.NDArray[np.int64], batch_size: int, batch_tokens: int) -> list[tuple[int, int]]:
    """Deal texts into requests of at most so many texts and tokens, as spans; a text with more stands alone."""
    spans: list[tuple[int, int]] = []
    first = held = 0
    for index, count in enumerate(tokens.tolist()):
        if index > first and (index - first >= batch_size or held + count > batch_tokens):
            spans.append((first, index))
            first, held = index, 0
        held += count
    if first < len(tokens):
        spans.append((first, len(tokens)))
    return spans


def _finite(client: Client, answer: Answer) -> npt.NDArray[np.float32]:
    if not (np.isfinite(answer.vectors).all() and answer.vectors.any(axis=1).all()):
        raise EmbeddingError(f"{client.name} answered a vector of zeros, or of something else than finite numbers")
    return answer.vectors


async def _or_error(answer: Awaitable[Answer]) -> Answer:
    """The answer, or the error of ours that stands for a failed call."""
    try:
        return await answer
    except CallError as failure:
        error = failure.error
    raise error
