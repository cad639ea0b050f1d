"""What a reranker is, to everything that uses one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rag_pipeline.errors import CredentialsError, EmbeddingError, RerankingError

Scores = npt.NDArray[np.float64]


class Reranker(Protocol):
    """Says how well texts answer a query. Safe to use from several threads."""

    @property
    def name(self) -> str:
        """Which reranker it is and with which model, for people."""
        ...

    @property
    def weight(self) -> float:
        """Its share of the score that ranks, unless the configuration says otherwise; the rest is fusion's."""
        ...

    def scores(self, query: str, texts: Sequence[str]) -> Scores:
        """Larger is better; of any scale, the same for all texts of a call. Deals texts into batches itself.

        Returns:
            A finite score a text, shape ``(len(texts),)``.

        Raises:
            RerankingError: the model refuses its input, or gives what is no score.
            CredentialsError: the provider refuses the key.
            ProviderError: the provider fails or cannot be reached.
        """
        ...


def finite_scores(name: str, given: npt.ArrayLike, wanted: int) -> Scores:
    """What a model gave, as scores.

    Raises:
        RerankingError: it is something else than one finite number a text.
    """
    scores = np.asarray(given, dtype=np.float64)
    if scores.shape != (wanted,) or not np.isfinite(scores).all():
        raise RerankingError(
            f"{name} gave scores of shape {scores.shape} for {wanted} texts, or something else than finite numbers; "
            f"expected ({wanted},): a reranker has one output"
        )
    return scores


@contextmanager
def as_reranking_errors() -> Iterator[None]:
    """Errors of what finds models, which embedders use as well, under the name that they have here."""
    try:
        yield
    except CredentialsError:
        raise
    except EmbeddingError as error:
        raise RerankingError(str(error)) from None
