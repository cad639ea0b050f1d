"""From configuration or identity to the embedder."""

from __future__ import annotations

import threading

import pytest

from rag_pipeline.config import EmbeddingConfig
from rag_pipeline.embedding import Embedder, embedder_for, embedder_of
from rag_pipeline.errors import EmbeddingError, IdentityMismatchError

CONFIGURATIONS = [EmbeddingConfig(), EmbeddingConfig(provider="hash"), EmbeddingConfig(provider="hash", dimensions=64)]


@pytest.mark.parametrize("config", CONFIGURATIONS, ids=str)
def test_an_identity_leads_back_to_its_embedder(config: EmbeddingConfig) -> None:
    embedder = embedder_for(config)
    assert embedder.identity.provider == config.provider
    assert embedder.identity.dimensions == (config.dimensions or 256)
    assert embedder_of(embedder.identity) is embedder
    assert embedder.embed_query("kettle").shape == (embedder.identity.dimensions,)


def test_the_static_models_revision_is_a_hash_over_its_files() -> None:
    assert len(bytes.fromhex(embedder_for(EmbeddingConfig()).identity.revision)) == 32


@pytest.mark.parametrize(
    "change", [{"revision": "0" * 64}, {"model": "other"}, {"dimensions": 64}, {"query_prompt": "query: "}], ids=str
)
def test_vectors_of_another_identity_are_refused_with_both_named(change: dict[str, object]) -> None:
    here = embedder_for(EmbeddingConfig()).identity
    other = here.model_copy(update=change)
    with pytest.raises(IdentityMismatchError) as caught:
        embedder_of(other)
    for identity in (here, other):
        for part in (identity.provider, identity.model, identity.revision, str(identity.dimensions)):
            assert part in str(caught.value)


def test_an_unknown_provider_is_refused_by_name() -> None:
    identity = embedder_for(EmbeddingConfig()).identity.model_copy(update={"provider": "oracle"})
    with pytest.raises(EmbeddingError, match="oracle"):
        embedder_of(identity)


def test_threads_that_ask_at_once_get_one_embedder() -> None:
    config = EmbeddingConfig(provider="hash", dimensions=96)
    found: list[Embedder] = []
    threads = [threading.Thread(target=lambda: found.append(embedder_for(config))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1


def test_a_forked_process_asks_through_limits_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    config = EmbeddingConfig(provider="openai", dimensions=8)
    parents = embedder_for(config)
    assert embedder_for(config) is parents
    monkeypatch.setattr("os.getpid", lambda: 1)
    assert embedder_for(config) is not parents
