"""Which reranker a search asks for, from its argument and from what the snapshot says."""

from __future__ import annotations

import threading
from typing import get_args

from pydantic import ValidationError

from rag_pipeline.config import RerankerName, RetrievalConfig
from rag_pipeline.errors import QueryError
from rag_pipeline.reranking.base import Reranker

_OPTIONS_OF_ONE = ("rerank_model", "rerank_provider", "rerank_revision", "rerank_api_base", "rerank_weight")

_loaded: dict[str, Reranker] = {}
_lock = threading.Lock()


def chosen(retrieval: RetrievalConfig, rerank: str | None) -> RetrievalConfig:
    """The settings that hold for a search.

    Args:
        retrieval: the corpus's.
        rerank: the search's argument: None for the corpus's reranker, else a name, or name and model as
            ``cross-encoder:BAAI/bge-reranker-base``. Model, address and weight that the corpus names for another
            reranker than this one do not hold for it.

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
        kept -= set(_OPTIONS_OF_ONE)
    values = {key: getattr(retrieval, key) for key in kept}
    if model:
        values |= {"rerank_model": model, "rerank_revision": None}
    try:
        return RetrievalConfig.model_validate({**values, "rerank": name})
    except ValidationError as error:
        reasons = "; ".join(str(fault["msg"]).removeprefix("Value error, ") for fault in error.errors())
        raise QueryError(f"rerank {rerank}: {reasons} (as NAME:MODEL, or under retrieval in corpus.yaml)") from None


def reranker_for(retrieval: RetrievalConfig) -> Reranker:
    """The reranker that settings name. Models are loaded once a process.

    Raises:
        RerankingError: its model cannot be loaded.
        CredentialsError: its provider's key is missing.
        MissingExtraError: what runs it is not installed.
    """
    key = retrieval.model_dump_json(include={name for name in RetrievalConfig.model_fields if name.startswith("rerank")})
    with _lock:
        if key not in _loaded:
            _loaded[key] = _load(retrieval)
        return _loaded[key]


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
