"""What one request to a provider gives, and the ways in which it fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from rag_pipeline.errors import RagPipelineError

Purpose: TypeAlias = Literal["document", "query"]
FailureKind: TypeAlias = Literal["transient", "throttled", "refused", "terminal"]


class Answer(NamedTuple):
    """``vectors`` has shape ``(n, dimensions)``, rows in the order of the texts, not scaled. ``tokens`` is None unsaid."""

    vectors: npt.NDArray[np.float32]
    tokens: int | None


class CallError(Exception):
    """A request failed.

    ``transient`` and ``throttled`` may be tried again, ``throttled`` after ``retry_after`` seconds where the provider said
    so. ``refused`` is about these texts: fewer of them may do. ``error`` is what to raise when nothing helps; its message
    holds no secret.
    """

    def __init__(self, kind: FailureKind, error: RagPipelineError, retry_after: float | None = None) -> None:
        super().__init__(str(error))
        self.kind = kind
        self.error = error
        self.retry_after = retry_after


class Client(Protocol):
    """Sends one request and reads its answer. Tries nothing again."""

    @property
    def name(self) -> str:
        """What is asked, for messages."""
        ...

    def check_credentials(self) -> None:
        """
        Raises:
            CredentialsError: a key is missing; the message names its variable.
            MissingExtraError: the library that sends requests is not installed.
        """
        ...

    async def request(self, texts: Sequence[str], purpose: Purpose) -> Answer:
        """
        Raises:
            CallError: there is no usable answer.
        """
        ...
