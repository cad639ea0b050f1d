"""From configuration, or from what a manifest says, to the embedder itself."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rag_pipeline.config import EmbeddingConfig
from rag_pipeline.contracts import EmbedderIdentity
from rag_pipeline.embedding import hash as hash_provider
from rag_pipeline.embedding import static as static_provider
from rag_pipeline.embedding.base import Embedder
from rag_pipeline.errors import EmbeddingError, IdentityMismatchError

_loaded: dict[tuple[str, int], Embedder] = {}
_lock = threading.Lock()


def embedder_for(config: EmbeddingConfig) -> Embedder:
    """The embedder that a corpus asks for. Models are loaded once a process.

    Raises:
        EmbeddingError: its model cannot be loaded.
    """
    return _embedder(config.provider, config.dimensions)


def embedder_of(identity: EmbedderIdentity) -> Embedder:
    """The embedder that made vectors of this identity.

    Raises:
        IdentityMismatchError: what can be loaded here has another identity; the message shows both.
        EmbeddingError: its provider is not known here, or its model cannot be loaded.
    """
    embedder = _embedder(identity.provider, identity.dimensions)
    if embedder.identity != identity:
        raise IdentityMismatchError(
            f"the vectors were made by {_described(identity)}, but this installation gives "
            f"{_described(embedder.identity)}: refresh the corpus here, or install what made its vectors"
        )
    return embedder


def _embedder(provider: str, dimensions: int | None) -> Embedder:
    loaders: dict[str, Callable[[], Embedder]] = {
        static_provider.PROVIDER: static_provider.load,
        hash_provider.PROVIDER: lambda: hash_provider.HashEmbedder(dimensions or hash_provider.DEFAULT_DIMENSIONS),
    }
    if provider not in loaders:
        raise EmbeddingError(f"embedding.provider {provider}: not known here; expected {' or '.join(sorted(loaders))}")
    # The static model has one width; the width of hashed vectors is free.
    key = (provider, 0 if provider == static_provider.PROVIDER else dimensions or hash_provider.DEFAULT_DIMENSIONS)
    with _lock:
        if key not in _loaded:
            _loaded[key] = loaders[provider]()
        return _loaded[key]


def _described(identity: EmbedderIdentity) -> str:
    prompts = f", prompts {identity.document_prompt!r} and {identity.query_prompt!r}"
    return (
        f"{identity.provider}/{identity.model}, revision {identity.revision}, {identity.dimensions} dimensions"
        f"{'' if identity.normalised else ', not normalised'}"
        f"{prompts if identity.document_prompt or identity.query_prompt else ''}"
    )
