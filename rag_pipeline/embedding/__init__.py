"""Texts to vectors: what an embedder is, and the embedders that need no account and no network."""

from rag_pipeline.embedding.base import Embedder
from rag_pipeline.embedding.providers import embedder_for, embedder_of

__all__ = ["Embedder", "embedder_for", "embedder_of"]
