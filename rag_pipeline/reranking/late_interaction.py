"""Reranker ``late-interaction``: every token of the query looks for the token of a text that is most like it.

Khattab, Zaharia: ColBERT, SIGIR 2020 (MaxSim), with the token vectors of the static model. They know nothing of the
words beside them, so that this is a match of words that also sees their kin. It needs no extra and no network.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rag_pipeline.embedding import static
from rag_pipeline.embedding.base import unit_rows
from rag_pipeline.embedding.static import StaticEmbedder
from rag_pipeline.reranking.base import Scores, as_reranking_errors

_QUERY_TOKENS = 32
"""Distinct ones looked at together, which bounds the memory that a very long query takes."""

_MULTIPLICATIONS_ALONE = 1 << 18


class LateInteractionReranker:
    """Scores ``sum over query tokens of weight x max over text tokens of cosine``, over the sum of the weights.

    The weight of a query token is the length of its vector: the model has learnt short ones for words that say little.

    Args:
        embedder: the static embedder, for its tokens and their vectors.
    """

    name = "late-interaction/static"
    weight = 0.3
    """Measured, see docs/adr: alone it ranks worse than what it ranks anew, by three tenths a little better."""

    def __init__(self, embedder: StaticEmbedder) -> None:
        self._embedder = embedder
        # Filled as tokens are met. Threads may fill a row twice, with the same numbers.
        self._directions = np.empty((embedder.vocabulary_size, static.DIMENSIONS), dtype=np.float32)
        self._met = np.zeros(embedder.vocabulary_size, dtype=np.bool_)

    def scores(self, query: str, texts: Sequence[str]) -> Scores:
        asked, repetitions = np.unique(self._embedder.tokens_of([query]).tokens, return_counts=True)
        given = self._embedder.tokens_of(texts)
        if not len(asked) or not len(given.tokens):
            return np.zeros(len(texts))
        distinct, places = self._distinct(given.tokens)
        lengths = np.linalg.norm(self._embedder.token_vectors(asked).astype(np.float64), axis=1)
        weights = lengths * repetitions
        directions = self._directions_of(distinct)
        sums = np.zeros(len(texts))
        for first in range(0, len(asked), _QUERY_TOKENS):
            block = slice(first, first + _QUERY_TOKENS)
            similarities = _products(directions, self._directions_of(asked[block]))
            sums += weights[block] @ best_matches(similarities[places], given.offsets)
        return np.asarray(sums / weights.sum())

    def _distinct(self, tokens: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The distinct tokens, and for each token its place among them."""
        present = np.zeros(len(self._met), dtype=np.bool_)
        present[tokens] = True
        distinct = np.flatnonzero(present).astype(np.int32)
        place_of = np.empty(len(present), dtype=np.int32)
        place_of[distinct] = np.arange(len(distinct), dtype=np.int32)
        return distinct, place_of[tokens]

    def _directions_of(self, tokens: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
        """The vectors of tokens at length 1, shape ``(len(tokens), dimensions)``."""
        new = tokens[~self._met[tokens]]
        if len(new):
            self._directions[new] = unit_rows(self._embedder.token_vectors(new))
            self._met[new] = True
        return self._directions[tokens].astype(np.float64)


def best_matches(similarities: npt.NDArray[np.float64], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """MaxSim over texts whose tokens stand one after the other.

    Args:
        similarities: of every token of all texts with every query token, shape ``(tokens, query tokens)``.
        offsets: those of text ``i`` are ``similarities[offsets[i]:offsets[i + 1]]``.

    Returns:
        The greatest of each text, shape ``(query tokens, texts)``; 0 for a text without tokens.
    """
    best = np.zeros((similarities.shape[1], len(offsets) - 1))
    filled = np.flatnonzero(np.diff(offsets))
    best[:, filled] = np.maximum.reduceat(similarities, offsets[filled], axis=0).T
    return best


def _products(texts: npt.NDArray[np.float64], query: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """``texts @ query.T``, in slices for which OpenBLAS wakes no threads: those wait for each other for longer than the
    whole product takes (measured: 0.9 ms of CPU against 13 for 3,000 tokens and 20 query tokens)."""
    rows = max(_MULTIPLICATIONS_ALONE // query.size, 1)
    slices = [np.matmul(texts[first : first + rows], query.T) for first in range(0, len(texts), rows)]
    return np.concatenate(slices)


def load() -> LateInteractionReranker:
    """
    Raises:
        RerankingError: the static model cannot be read.
    """
    with as_reranking_errors():
        return LateInteractionReranker(static.load())
