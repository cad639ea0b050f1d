"""From configuration, or from what a manifest says, to the embedder itself."""

from __future__ import annotations

import importlib.util
import os
import threading

from rag_pipeline.config import HOSTED_PROVIDERS, EmbedderConfig
from rag_pipeline.contracts import EmbedderIdentity, ModelAccess
from rag_pipeline.embedding.base import Embedder
from rag_pipeline.errors import EmbeddingError, IdentityMismatchError
from rag_pipeline.storage import StorePath

WIDTHS_FILE = "widths.json"
"""In the folder of the embedding cache: the widths of models that had to be asked for theirs."""

_loaded: dict[str, Embedder] = {}
_lock = threading.Lock()


def embedder_for(config: EmbedderConfig, cache_folder: StorePath | None = None, remember: bool = True) -> Embedder:
    """The embedder that a corpus asks for. Models are loaded once a process.

    Args:
        cache_folder: the folder of the embedding cache, which knows the widths of models that had to be asked for theirs.
        remember: whether another width may be written down there.

    Raises:
        EmbeddingError: its model cannot be loaded.
        MissingExtraError: what runs it is not installed.
    """
    config = resolved(config)
    key = config.model_dump_json(exclude={"fallback"}, exclude_defaults=True)
    if config.provider in HOSTED_PROVIDERS:
        # What keeps requests within limits belongs to one event loop, which a forked process does not have.
        key = f"{key} {os.getpid()}"
    with _lock:
        if key not in _loaded:
            embedder = _load(config, cache_folder, remember)
            # Two configurations may come to the same embedder. What is hosted differs in more than its identity.
            _loaded[key] = embedder if config.provider in HOSTED_PROVIDERS else _same_as_before(embedder)
        return _loaded[key]


def _same_as_before(embedder: Embedder) -> Embedder:
    return next((known for known in _loaded.values() if known.identity == embedder.identity), embedder)


def resolved(config: EmbedderConfig) -> EmbedderConfig:
    """What provider ``auto`` means here and now: Voyage when its key is set, else a local model when one can run, else
    the static one. Any other configuration as it is."""
    if config.provider != "auto":
        return config
    if os.environ.get("VOYAGE_API_KEY"):
        provider = "voyage"
    elif importlib.util.find_spec("fastembed") is not None:
        provider = "local"
    else:
        provider = "static"
    given = {name: getattr(config, name) for name in config.model_fields_set - {"provider", "fallback"}}
    return EmbedderConfig.model_validate({**given, "provider": provider})


def embedder_of(identity: EmbedderIdentity, query_model: str | None = None, access: ModelAccess | None = None) -> Embedder:
    """The embedder for queries against vectors of this identity.

    Args:
        query_model: the model that embeds queries into the same space, where it is another one.
        access: where the model is.

    Raises:
        IdentityMismatchError: what can be loaded here has another identity; the message shows both.
        EmbeddingError: its provider is not known here, or its model cannot be loaded.
        MissingExtraError: what runs it is not installed.
    """
    if identity.provider in HOSTED_PROVIDERS:
        from rag_pipeline.embedding.hosted.build import embedder_of_identity

        return embedder_of_identity(identity, query_model, access or ModelAccess())
    with _lock:
        known = next((embedder for embedder in _loaded.values() if embedder.identity == identity), None)
    embedder = known or _like(identity, access or ModelAccess())
    if embedder.identity != identity:
        raise IdentityMismatchError(
            f"the vectors were made by {_described(identity)}, but this installation gives "
            f"{_described(embedder.identity)}: refresh the corpus here, or install what made its vectors"
        )
    return embedder


def _load(config: EmbedderConfig, cache_folder: StorePath | None, remember: bool) -> Embedder:
    if config.provider in HOSTED_PROVIDERS:
        from rag_pipeline.embedding.hosted.build import hosted_embedder

        return hosted_embedder(config, cache_folder / WIDTHS_FILE if cache_folder is not None else None, remember)
    if config.provider == "local":
        from rag_pipeline.embedding.fastembed_models import load as load_fastembed_model

        return load_fastembed_model(config)
    if config.provider == "sentence-transformers":
        from rag_pipeline.embedding.sentence_transformers_models import load as load_sentence_transformer

        return load_sentence_transformer(config)
    if config.provider == "hash":
        from rag_pipeline.embedding import hash as hash_provider

        return hash_provider.HashEmbedder(config.dimensions or hash_provider.DEFAULT_DIMENSIONS)
    from rag_pipeline.embedding import static

    return static.load()


def _like(identity: EmbedderIdentity, access: ModelAccess) -> Embedder:
    """What this installation has under an identity's provider and model."""
    values: dict[str, object] = {"provider": identity.provider}
    if identity.provider == "hash":
        values["dimensions"] = identity.dimensions
    elif identity.provider in ("local", "sentence-transformers"):
        from rag_pipeline.embedding.local_models import configured_revision

        values |= {"model": access.model or identity.model, "dimensions": identity.dimensions}
        values["revision"] = configured_revision(identity)
        values |= {"document_prompt": identity.document_prompt, "query_prompt": identity.query_prompt}
    elif identity.provider != "static":
        raise EmbeddingError(f"embedding.provider {identity.provider}: not known here")
    return embedder_for(EmbedderConfig.model_validate(values))


def _described(identity: EmbedderIdentity) -> str:
    prompts = f", prompts {identity.document_prompt!r} and {identity.query_prompt!r}"
    return (
        f"{identity.provider}/{identity.model}, revision {identity.revision}, {identity.dimensions} dimensions"
        f"{'' if identity.normalised else ', not normalised'}"
        f"{prompts if identity.document_prompt or identity.query_prompt else ''}"
    )
