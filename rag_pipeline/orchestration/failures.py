"""Errors of ours as Dagster shows them, and which of them are worth another try."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg

from rag_pipeline.errors import ProviderError, RagPipelineError, TransientError
from rag_pipeline.lance import bucket_errors
from rag_pipeline.orchestration.resources import RefreshSettings


@contextmanager
def failures_for_people(
    settings: RefreshSettings | None = None, tried_before: int = 0, figures: Callable[[], dict[str, Any]] = dict
) -> Iterator[None]:
    """Turn errors of ours into Dagster failures: the message without a trace.

    With settings, what may pass by itself is tried again as often as they say. A provider that fails is not among it: the
    embedder has asked it again for `embedding.retry_seconds` already, and a place in its pool is wanted by others.

    Args:
        figures: what is to be shown beside the message, such as what was paid.
    """
    try:
        with bucket_errors("the data root"):
            yield
    except RagPipelineError as error:
        passing = isinstance(error, TransientError) and not isinstance(error, ProviderError)
        if passing and settings is not None and tried_before < settings.retries:
            raise dg.RetryRequested(max_retries=settings.retries, seconds_to_wait=settings.retry_seconds) from error
        raise dg.Failure(description=str(error), metadata=figures(), allow_retries=False) from error
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise dg.Failure(description=f"{error.strerror or error}{where}", metadata=figures(), allow_retries=False) from error
