"""Reranker ``cross-encoder``: a model of sentence-transformers that reads query and text together.

Nogueira, Cho: Passage Re-ranking with BERT, 2019. A name is looked up in the Hugging Face cache and downloaded once when
it is not there; a folder of one's own is one that sentence-transformers or transformers saved. Code that comes with a
model is not run. A text longer than the model reads is judged by its beginning.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

from rag_pipeline.config import RetrievalConfig
from rag_pipeline.embedding.hugging_face_tokens import encodable
from rag_pipeline.embedding.local_models import folder_of
from rag_pipeline.embedding.sentence_transformers_models import check_folder, from_hub, quiet
from rag_pipeline.errors import MissingExtraError, RerankingError
from rag_pipeline.reranking.base import Scores, as_reranking_errors, finite_scores

DEFAULT_MODEL = "cross-encoder/ms-marco-MiniLM-L-6-v2"
MODEL_KEY = "retrieval.rerank_model"
_FIELD = "retrieval.rerank cross-encoder"
_BATCH_SIZE = 16
"""Pairs of the model's full length together take a small model some 100 MB."""


class CrossEncoderReranker:
    """Scores are the model's logits: squeezed into 0..1, as the library does, the best and the worst become ties."""

    weight = 1.0

    def __init__(self, model: Any, name: str, batch_size: int) -> None:
        self.name = name
        self._model = model
        self._batch_size = batch_size
        self._lock = threading.Lock()

    def scores(self, query: str, texts: Sequence[str]) -> Scores:
        if not texts:
            return finite_scores(self.name, [], 0)
        pairs = [(encodable(query), encodable(text)) for text in texts]
        try:
            # The library tells its tokenizer anew for every call how to pad and to truncate.
            with self._lock:
                given = self._model.predict(
                    pairs,
                    batch_size=self._batch_size,
                    show_progress_bar=False,
                    activation_fn=_as_it_is,
                    convert_to_numpy=True,
                )
        except (RuntimeError, ValueError, IndexError) as error:
            raise RerankingError(f"{self.name} cannot score these texts: {first_line(error)}") from None
        return finite_scores(self.name, given, len(texts))


def _as_it_is(logits: Any) -> Any:
    return logits


def first_line(error: Exception) -> str:
    """What an error of a library says, in one line."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else repr(error)


def load(settings: RetrievalConfig) -> CrossEncoderReranker:
    """Load a model by its name on Hugging Face or from a folder, on the device that the library chooses.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        RerankingError: the model is not here and cannot be had, cannot be read, or gives more than one score.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        from sentence_transformers import CrossEncoder
    except ImportError as error:
        raise MissingExtraError(error.name or "sentence-transformers", "sentence-transformers", _FIELD) from None

    name = settings.rerank_model or DEFAULT_MODEL
    with as_reranking_errors():
        given = folder_of(name, _FIELD, MODEL_KEY)
        folder = given if given is not None else from_hub(name, settings.rerank_revision, MODEL_KEY)
        check_folder(folder, MODEL_KEY)
    try:
        with quiet():
            model = CrossEncoder(str(folder), local_files_only=True)
    except Exception as error:  # noqa: BLE001 - torch, transformers and safetensors raise errors of no common kind
        raise RerankingError(f"{_FIELD}: {folder} cannot be loaded: {first_line(error)}") from None
    shown = name if given is None else given.resolve().name
    reranker = CrossEncoderReranker(model, f"cross-encoder/{shown}", settings.rerank_batch_size or _BATCH_SIZE)
    reranker.scores("a", ["a", "b"])  # a model of several classes is refused here, before anybody searches
    return reranker
