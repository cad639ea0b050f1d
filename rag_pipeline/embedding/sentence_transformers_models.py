"""Provider ``sentence-transformers``: models of that library, run by PyTorch.

A name is looked up in the Hugging Face cache and downloaded once when it is not there; nothing is asked of the network
for a model that is. A folder of one's own is one that sentence-transformers saved. Code that comes with a model is not
run: a model that needs its own code is refused.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy.typing as npt

from rag_pipeline.config import EmbedderConfig
from rag_pipeline.contracts import EmbedderIdentity
from rag_pipeline.embedding.hugging_face_tokens import HuggingFaceTokenizer
from rag_pipeline.embedding.local_models import (
    LocalEmbedder,
    cached_or_downloaded,
    files_digest,
    folder_of,
    named_revision,
    room_for_text,
)
from rag_pipeline.embedding.prompts import documented_prompts
from rag_pipeline.errors import EmbeddingError, MissingExtraError

PROVIDER = "sentence-transformers"
DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
_FIELD = "embedding.provider sentence-transformers"
_PATTERNS = ["*.json", "*.txt", "*.model", "*.safetensors", "[0-9]_*/*.bin"]
_OLDER_WEIGHTS = ["pytorch_model*.bin"]
_NOT_LOADED = ["onnx/*", "openvino/*"]
_DECIDING_FILES = (
    "modules.json", "config.json", "sentence_bert_config.json", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt", "sentencepiece.bpe.model",
    "spiece.model", "tokenizer.model",
)  # fmt: skip
_NO_LIMIT = 1 << 31
"""Tokenizers without a limit say 1e30."""


class SentenceTransformersEmbedder(LocalEmbedder):
    """Embeds with a model of sentence-transformers, see `load`. Safe to use from several threads."""

    def __init__(self, model: Any, **options: Any) -> None:
        super().__init__(**options)
        self._model = model
        self._lock = threading.Lock()

    def _vectors(self, texts: list[str], query: bool) -> npt.NDArray[Any]:
        encode = self._model.encode_query if query else self._model.encode_document
        prompt = self.identity.query_prompt if query else self.identity.document_prompt
        # The library tells its tokenizer anew for every call how to pad and to truncate.
        with self._lock:
            vectors: npt.NDArray[Any] = encode(
                texts, prompt=prompt, batch_size=len(texts), show_progress_bar=False, convert_to_numpy=True
            )
        return vectors


def load(config: EmbedderConfig) -> SentenceTransformersEmbedder:
    """Load a model by its name on Hugging Face or from a folder, on the device that the library chooses.

    Prompts that the configuration does not give are the model's own where it carries some, else those of its authors.
    With ``config.dimensions`` a vector is cut to its first components.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        EmbeddingError: the model is not here and cannot be had, cannot be read, or is narrower than
            ``config.dimensions``.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        from sentence_transformers import SentenceTransformer
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingExtraError(error.name or "sentence-transformers", "sentence-transformers", _FIELD) from None

    name = config.model or DEFAULT_MODEL
    given = folder_of(name, _FIELD)
    folder = given if given is not None else from_hub(name, config.revision)
    if given is not None:
        check_folder(folder)
        name = folder.resolve().name
    digest = files_digest(folder, _deciding_files(folder))
    try:
        with quiet():
            model = SentenceTransformer(str(folder), local_files_only=True, truncate_dim=config.dimensions)
            width = model.encode(["a"], prompt="", show_progress_bar=False).shape[1]
            own_tokenizer = getattr(model.tokenizer, "backend_tokenizer", model.tokenizer)
    except Exception as error:  # noqa: BLE001 - torch, transformers and safetensors raise errors of no common kind
        reason = str(error).strip().splitlines()
        raise EmbeddingError(f"{_FIELD}: {folder} cannot be loaded: {reason[0] if reason else error!r}") from None
    if config.dimensions not in (None, width):
        raise EmbeddingError(
            f"embedding.dimensions {config.dimensions}: {name} gives {width}; expected at most {width}, or nothing"
        )
    if not isinstance(own_tokenizer, Tokenizer):
        raise EmbeddingError(f"{_FIELD}: {name} has no fast tokenizer (tokenizer.json), without which chunks have no size")
    document_prompt, query_prompt = _own_prompts(model.prompts) or documented_prompts(name)
    identity = EmbedderIdentity(
        provider=PROVIDER,
        model=name,
        revision=named_revision(config.revision, digest),
        dimensions=width,
        document_prompt=document_prompt if config.document_prompt is None else config.document_prompt,
        query_prompt=query_prompt if config.query_prompt is None else config.query_prompt,
    )
    tokenizer = HuggingFaceTokenizer(own_tokenizer)
    limit = model.max_seq_length
    return SentenceTransformersEmbedder(
        model,
        identity=identity,
        tokenizer=tokenizer,
        max_tokens=room_for_text(int(limit) if limit and limit < _NO_LIMIT else None, own_tokenizer, tokenizer, identity),
        batch_size=config.batch_size,
    )


def _own_prompts(prompts: dict[str, str | None]) -> tuple[str, str] | None:
    """The prompts that a model carries; None when it carries none, for which the library puts empty ones."""
    document = prompts.get("document") or prompts.get("passage") or ""
    query = prompts.get("query") or ""
    return (document, query) if document or query else None


def from_hub(name: str, revision: str | None, key: str = "embedding.model") -> Path:
    """The folder of a model of Hugging Face for sentence-transformers, downloaded once when it is not cached.

    Raises:
        EmbeddingError: it cannot be had; the message begins with ``key``, where a folder may be given instead.
    """
    return cached_or_downloaded(
        name,
        revision,
        cache=os.environ.get("SENTENCE_TRANSFORMERS_HOME"),
        patterns=(_PATTERNS, [*_PATTERNS, *_OLDER_WEIGHTS]),
        ignored=_NOT_LOADED,
        complete=_has_weights,
        field=f"{key} {name}",
        remedy=(
            f"give the path of a folder that sentence-transformers saved as {key}, or set HF_HOME to a cache that holds it"
        ),
    )


def _has_weights(folder: Path) -> bool:
    weights = [*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin"), *folder.glob("[0-9]_*/*.safetensors")]
    described = (folder / "config.json").is_file() or (folder / "modules.json").is_file()
    return described and any(file.is_file() for file in weights)


def check_folder(folder: Path, key: str = "embedding.model") -> None:
    """
    Raises:
        EmbeddingError: the folder holds no model for sentence-transformers.
    """
    if not _has_weights(folder):
        raise EmbeddingError(
            f"{key} {folder}: expected a folder that sentence-transformers saved, with modules.json or "
            "config.json and model.safetensors"
        )


def _deciding_files(folder: Path) -> list[str]:
    """The files of a model that decide its vectors: weights, tokenizer and settings, not its card or other formats."""
    parts = [""]
    if (folder / "modules.json").is_file():
        try:
            parts += [module["path"] for module in json.loads((folder / "modules.json").read_text(encoding="utf-8"))]
        except (ValueError, TypeError, KeyError) as error:
            raise EmbeddingError(f"embedding.model {folder}: modules.json cannot be read: {error!r}") from None
    files: list[str] = []
    for part in dict.fromkeys(parts):
        place = folder / part
        weights = sorted(place.glob("*.safetensors")) or sorted(place.glob("pytorch_model*.bin"))
        present = [*(place / file for file in _DECIDING_FILES if (place / file).is_file()), *weights]
        files += [file.relative_to(folder).as_posix() for file in present]
    return files


@contextmanager
def quiet() -> Iterator[None]:
    """Without the progress bars and notes of a load, and with whatever was set before afterwards."""
    from transformers.utils import logging as transformers_logging

    logger = logging.getLogger("sentence_transformers")
    level, verbosity = logger.level, transformers_logging.get_verbosity()
    bar = transformers_logging.is_progress_bar_enabled()
    logger.setLevel(logging.ERROR)
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        logger.setLevel(level)
        transformers_logging.set_verbosity(verbosity)
        if bar:
            transformers_logging.enable_progress_bar()
