"""Which reranker a search asks for, from its argument and from what the snapshot says."""

from __future__ import annotations

import math
import threading
import time
from typing import get_args

from pydantic import ValidationError

from rag_pipeline.config import RerankerName, RetrievalConfig
from rag_pipeline.errors import QueryError, RagPipelineError
from rag_pipeline.reranking.base import Reranker

_OPTIONS_OF_ONE = frozenset(
    {"rerank_model", "rerank_provider", "rerank_revision", "rerank_api_base", "rerank_weight", "rerank_batch_size"}
)

_NOT_OF_THE_MODEL = frozenset({"rerank_candidates", "rerank_weight", "rerank_on_failure"})

_SECONDS_BETWEEN_TRIES = 60.0
"""A model that cannot be had takes seconds to say so: not at every search."""

_loaded: dict[str, Reranker] = {}
_failed: dict[str, tuple[float, RagPipelineError]] = {}
_lock = threading.Lock()


def chosen(retrieval: RetrievalConfig, rerank: str | None) -> RetrievalConfig:
    """The settings that hold for a search.

    Args:
        retrieval: the corpus's.
        rerank: the search's argument: None for the corpus's reranker, else a name, or name and model as
            ``cross-encoder:BAAI/bge-reranker-base``. Model, address, weight and batches that the corpus names for another
            reranker do not hold for this one, nor its address for a model of another provider.

    Raises:
        QueryError: there is no such reranker, or it needs a model that nobody names.
    """
    if rerank is None:
        return retrieval
    known = get_args(RerankerName)
    name, _, model = rerank.partition(":") if isinstance(rerank, str) else ("", "", "")
    if name not in known:
        raise QueryError(f"rerank: expected one of {', '.join(known)}, or NAME:MODEL, got {rerank!r}")
    kept = set(RetrievalConfig.model_fields) - {"rerank"}
    if name != retrieval.rerank:
        kept -= _OPTIONS_OF_ONE
    values = {key: getattr(retrieval, key) for key in kept}
    if model and model != retrieval.rerank_model:
        values |= {"rerank_model": model, "rerank_revision": None, "rerank_weight": None}
        # Another provider's key must not go to the address of this one.
        if model.split("/")[0] != (retrieval.rerank_model or "").split("/")[0]:
            values["rerank_api_base"] = None
    try:
        return RetrievalConfig.model_validate({**values, "rerank": name})
    except ValidationError as error:
        reasons = "; ".join(str(fault["msg"]).removeprefix("Value error, ") for fault in error.errors())
        raise QueryError(f"rerank {rerank}: {reasons} (as NAME:MODEL, or under retrieval in corpus.yaml)") from None


def reranker_for(retrieval: RetrievalConfig) -> Reranker:
    """The reranker that settings name. Models are loaded once a process; one that fails is tried again after a minute.

    Raises:
        RerankingError: its model cannot be loaded.
        CredentialsError: its provider's key is missing.
        MissingExtraError: what runs it is not installed.
    """
    of_the_model = {name for name in RetrievalConfig.model_fields if name.startswith("rerank")} - _NOT_OF_THE_MODEL
    key = retrieval.model_dump_json(include=of_the_model)
    with _lock:
        if key in _loaded:
            return _loaded[key]
        tried, failure = _failed.get(key, (-math.inf, None))
        if failure is not None and time.monotonic() - tried < _SECONDS_BETWEEN_TRIES:
            raise failure.with_traceback(None)
        try:
            _loaded[key] = _load(retrieval)
        except RagPipelineError as error:
            _failed[key] = (time.monotonic(), error)
            raise
        return _loaded[key]


def local_rerankers(retrieval: RetrievalConfig) -> dict[str, str | None]:
    """The rerankers that need no provider, and for each why it cannot be had here, or None where it can.

    Nothing is downloaded where the environment says HF_HUB_OFFLINE.
    """
    found: dict[str, str | None] = {}
    for name in ("late-interaction", "cross-encoder"):
        try:
            reranker_for(chosen(retrieval, name))
        except RagPipelineError as error:
            found[name] = str(error)
        else:
            found[name] = None
    return found


def _load(retrieval: RetrievalConfig) -> Reranker:
    if retrieval.rerank == "late-interaction":
        from rag_pipeline.reranking.late_interaction import load as load_late_interaction

        return load_late_interaction()
    if retrieval.rerank == "cross-encoder" and retrieval.rerank_provider == "local":
        from rag_pipeline.reranking.fastembed_cross_encoder import load as load_fastembed_model

        return load_fastembed_model(retrieval)
    if retrieval.rerank == "cross-encoder":
        from rag_pipeline.reranking.cross_encoder import load as load_cross_encoder

        return load_cross_encoder(retrieval)
    if retrieval.rerank == "litellm":
        from rag_pipeline.reranking.hosted import load as load_hosted

        return load_hosted(retrieval)
    if retrieval.rerank == "llm":
        from rag_pipeline.reranking.judge import load as load_judge

        return load_judge(retrieval)
    raise QueryError(f"rerank: {retrieval.rerank} is no reranker")
