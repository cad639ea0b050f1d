"""What an embedder is, to everything that uses one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from rag_pipeline.contracts import EmbedderIdentity

if TYPE_CHECKING:
    from rag_pipeline.contracts import Tokenizer


class Embedder(Protocol):
    """Turns texts into vectors that can be compared with each other. Safe to use from several threads."""

    @property
    def identity(self) -> EmbedderIdentity:
        """Everything that decides the vectors. Two embedders of one identity give the same vectors."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """Counts tokens as the model reads them."""
        ...

    @property
    def batch_size(self) -> int:
        """How many texts a call should hold to be quick; any number works."""
        ...

    @property
    def max_tokens(self) -> int | None:
        """How many tokens a text may have, the model's own marks and its prompt apart; None where there is no limit."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Embed what is searched.

        Returns:
            One row a text, shape ``(len(texts), dimensions)``, each of length 1, or all zeros where a text has no token.
            The vector of a text does not depend on the texts beside it.
        """
        ...

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """Embed what is searched for, shape ``(dimensions,)``, of length 1 or all zeros."""
        ...


@runtime_checkable
class CountingEmbedder(Protocol):
    """An embedder that knows afterwards how many tokens it has read, so that nobody needs to count them again."""

    def embed_and_count(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float32], int]:
        """What ``embed_documents`` gives, and the tokens of all texts together."""
        ...


# Integers below this square and sum to less than 2**63 over 8192 dimensions, the most that the configuration allows.
_LARGEST_COMPONENT = 1 << 24


def unit_vectors(sums: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Scale integer vectors to length 1; a zero vector stays one.

    Everything up to the one square root and the one division is whole numbers, so that every machine gives the same
    bits whatever the order of its additions.

    Args:
        sums: shape ``(n, dimensions)``.
    """
    largest = np.abs(sums).max(axis=1, initial=0)
    if (largest >= _LARGEST_COMPONENT).any():
        shift = np.maximum(np.frexp(largest.astype(np.float64))[1] - 24, 0)
        sums = sums >> shift[:, None]
    length = np.sqrt((sums * sums).sum(axis=1).astype(np.float64))
    length[length == 0] = 1
    return np.asarray(sums / length[:, None], dtype=np.float32)


def unit_rows(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Scale the rows that a model gave to length 1, shape ``(n, dimensions)``; a zero row stays one."""
    rows = vectors.astype(np.float64)
    # Rows that hold infinity become NaN, which is for the caller to find.
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    length[length == 0] = 1
    with np.errstate(invalid="ignore"):
        return np.asarray(rows / length[:, None], dtype=np.float32)
