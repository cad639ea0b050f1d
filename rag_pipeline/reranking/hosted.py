"""Reranker ``litellm``: the rerank APIs of Cohere, Voyage, Jina, vLLM and others, through LiteLLM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rag_pipeline.config import RetrievalConfig
from rag_pipeline.reranking.base import Scores, finite_scores
from rag_pipeline.reranking.provider import HostedModel

_BATCH_SIZE = 100
"""Texts a request; Cohere and Voyage take 1,000 (docs.cohere.com/reference/rerank, docs.voyageai.com/docs/reranker)."""


class HostedReranker:
    """Asks a provider's rerank API. It scores each text by itself, so that the scores of several requests compare."""

    weight = 1.0

    def __init__(self, model: HostedModel, batch_size: int) -> None:
        self.name = model.name
        self.model = model
        self._batch_size = batch_size

    def scores(self, query: str, texts: Sequence[str]) -> Scores:
        self.model.check_credentials()
        batches = [list(texts[first : first + self._batch_size]) for first in range(0, len(texts), self._batch_size)]
        requests = [
            {"query": query, "documents": batch, "top_n": len(batch), "return_documents": False} for batch in batches
        ]
        answers = self.model.ask(requests, lambda answer, number: self._scores(answer, len(batches[number])))
        return finite_scores(self.name, np.concatenate([np.zeros(0), *answers]), len(texts))

    def _scores(self, answer: Any, wanted: int) -> Scores:
        """The scores of one answer, whose rows come best first, in the order of its texts."""
        scores = np.full(wanted, np.nan)
        rows = list(getattr(answer, "results", None) or [])
        for row in rows:
            place, score = row.get("index"), row.get("relevance_score")
            if type(place) is int and 0 <= place < wanted and isinstance(score, (int, float)):
                scores[place] = score
        if len(rows) != wanted or not np.isfinite(scores).all():
            raise self.model.unusable(f"answered {len(rows)} scores for {wanted} texts, or not one finite number for each")
        return scores


def load(settings: RetrievalConfig) -> HostedReranker:
    """The reranker that settings name; nothing is asked yet."""
    return HostedReranker(HostedModel(settings, "arerank", "a rerank API"), settings.rerank_batch_size or _BATCH_SIZE)
