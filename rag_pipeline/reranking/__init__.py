"""Scores of texts for a query, by whatever reads both: what a reranker is, and which one a search asks for."""

from rag_pipeline.reranking.base import Reranker
from rag_pipeline.reranking.choice import chosen, local_rerankers, reranker_for

__all__ = ["Reranker", "chosen", "local_rerankers", "reranker_for"]
