"""Reranker ``cross-encoder`` with ``rerank_provider: local``: ONNX models run by fastembed, without torch.

A name is fastembed's for a cross-encoder, or sentence-transformers' for the default one; a folder of one's own holds
``model.onnx`` (or ``onnx/model.onnx``), ``tokenizer.json`` and ``tokenizer_config.json`` with its ``model_max_length``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rag_pipeline.config import RetrievalConfig
from rag_pipeline.embedding.fastembed_models import (
    REGISTERED,
    TOKENIZER_FILES,
    known_to_fastembed,
    looks_at_the_whole_batch,
    model_files,
)
from rag_pipeline.embedding.hugging_face_tokens import encodable
from rag_pipeline.embedding.local_models import files_digest, folder_of
from rag_pipeline.errors import MissingExtraError, RerankingError
from rag_pipeline.reranking.base import Scores, as_reranking_errors, finite_scores
from rag_pipeline.reranking.cross_encoder import DEFAULT_MODEL, MODEL_KEY, first_line

_FIELD = "retrieval.rerank cross-encoder, rerank_provider local"
_CONVERTED = {DEFAULT_MODEL.lower(): "Xenova/ms-marco-MiniLM-L-6-v2"}
"""The same weights in ONNX, by fastembed's name."""
_BATCH_SIZE = 16


class FastembedReranker:
    """Scores with an ONNX cross-encoder, texts of about the same length together: each is padded to the longest."""

    weight = 1.0

    def __init__(self, model: Any, name: str, batch_size: int) -> None:
        self.name = name
        self._model = model
        self._batch_size = batch_size

    def scores(self, query: str, texts: Sequence[str]) -> Scores:
        longest_first = np.argsort([-len(text) for text in texts], kind="stable") if texts else np.zeros(0, dtype=np.int64)
        ordered = [encodable(texts[place]) for place in longest_first.tolist()]
        try:
            given = list(self._model.rerank(encodable(query), ordered, batch_size=self._batch_size))
        except Exception as error:  # noqa: BLE001 - onnxruntime's errors have no common base
            raise RerankingError(f"{self.name} cannot score these texts: {first_line(error)}") from None
        scores = np.empty(len(texts))
        scores[longest_first] = finite_scores(self.name, given, len(texts))
        return scores


def load(settings: RetrievalConfig) -> FastembedReranker:
    """
    Raises:
        MissingExtraError: fastembed is not installed.
        RerankingError: the model is not known, is not here and cannot be had, or cannot be read.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        from fastembed.rerank.cross_encoder import TextCrossEncoder
    except ImportError as error:
        raise MissingExtraError(error.name or "fastembed", "local", _FIELD) from None

    name = settings.rerank_model or DEFAULT_MODEL
    name = _CONVERTED.get(name.lower(), name)
    with as_reranking_errors():
        given = folder_of(name, _FIELD, MODEL_KEY)
        if given is None:
            registered, folder, files = known_to_fastembed(
                TextCrossEncoder, name, settings.rerank_revision, _CONVERTED[DEFAULT_MODEL.lower()], MODEL_KEY
            )
            shown = registered
        else:
            folder, files, shown = given, model_files(given, MODEL_KEY), given.resolve().name
            registered = _registered(TextCrossEncoder, folder, files)
    try:
        model = TextCrossEncoder(registered, specific_model_path=str(folder))
        _check_output(model, shown)
    except RerankingError:
        raise
    except Exception as error:  # noqa: BLE001 - onnxruntime, tokenizers and fastembed raise errors of no common kind
        raise RerankingError(f"{_FIELD}: {folder} cannot be loaded: {first_line(error)}") from None
    # What scales its numbers by the largest of a batch gets batches of one: a score must not depend on its neighbours.
    batch_size = 1 if looks_at_the_whole_batch(folder, files) else settings.rerank_batch_size or _BATCH_SIZE
    return FastembedReranker(model, f"cross-encoder/{shown}", batch_size)


def _registered(kind: Any, folder: Path, files: tuple[str, ...]) -> str:
    """The name under which a folder is made known to fastembed, which keeps its models by name."""
    from fastembed.common.model_description import ModelSource

    registered = "/".join([REGISTERED, files_digest(folder, (*files, TOKENIZER_FILES[0])), *files])
    if not any(model["model"] == registered for model in kind.list_supported_models()):
        kind.add_custom_model(
            model=registered,
            sources=ModelSource(url="file://"),  # asked for, and never read: the model's folder is given
            model_file=files[0],
            additional_files=list(files[1:]),
        )
    return registered


def _check_output(model: Any, name: str) -> None:
    """fastembed takes the first of several classes for the score; such a model ranks badly, and nobody would notice."""
    logits = model.model.onnx_embed_pairs([("a", "b")])
    outputs = model.model.model.get_outputs()
    width = outputs[0].shape[-1] if len(outputs[0].shape) == 2 else None
    if width != 1 or len(logits.model_output) != 1:
        raise RerankingError(f"{name} gives {outputs[0].shape} for a pair of texts: a reranker has one output")
