"""What of configuration and code decides what a stage makes, as far as it is known without a model or a store."""

from __future__ import annotations

from typing import Any

from rag_pipeline.chunking import CHUNKER_VERSION
from rag_pipeline.config import CorpusConfig, EmbedderConfig
from rag_pipeline.hashing import value_hash
from rag_pipeline.index.analyzer import ANALYZER_VERSION
from rag_pipeline.index.vector_table import VECTOR_TABLE_VERSION
from rag_pipeline.refresh.document_state import parse_key

_IDENTITY_FIELDS = {"provider", "model", "dimensions", "revision", "document_prompt", "query_prompt"}
"""Limits, addresses and time-outs change how a model is asked, not what it answers."""


def code_versions(corpus: CorpusConfig) -> dict[str, str]:
    """The code version of each stage: with another one, what the stage made is out of date."""
    embedders = [_identity_fields(config) for config in corpus.embedding.chain]
    decisive: dict[str, Any] = {
        "documents": [parse_key(corpus), corpus.source.model_dump(mode="json", exclude={"verify", "storage_options"})],
        "chunks": [CHUNKER_VERSION, corpus.chunking.deciding, embedders],
        "embeddings": embedders,
        "vector_table": [VECTOR_TABLE_VERSION, embedders, dict(corpus.metadata)],
        "bm25_index": [ANALYZER_VERSION, corpus.lexical.language],
        "evaluation": [corpus.evaluation.model_dump(mode="json"), *_ranking(corpus)],
        "snapshot": [*_ranking(corpus), embedders, [config.query_model for config in corpus.embedding.chain]],
    }
    return {stage: value_hash(values)[:16] for stage, values in decisive.items()}


def _ranking(corpus: CorpusConfig) -> tuple[Any, Any]:
    return corpus.lexical.model_dump(mode="json"), corpus.retrieval.model_dump(mode="json")


def _identity_fields(config: EmbedderConfig) -> dict[str, Any]:
    return config.model_dump(mode="json", include=_IDENTITY_FIELDS)
