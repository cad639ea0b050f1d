"""The embedding cache keeps every vector once, in the order of the caller, across processes and crashes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rag_pipeline.contracts import EmbedderIdentity
from rag_pipeline.embedding.cache import EmbeddingCache
from rag_pipeline.errors import StoreError

IDENTITY = EmbedderIdentity(provider="hash", model="test", revision="1", dimensions=4)


def hashes(*names: str) -> pa.Array:
    return pa.array(names, pa.string())


def vectors(*firsts: float) -> np.ndarray:
    return np.array([[first, 0, 0, 1] for first in firsts], dtype=np.float32)


def test_what_was_added_is_found_by_the_next_process(tmp_path: Path) -> None:
    EmbeddingCache(tmp_path, IDENTITY).add(hashes("a", "b"), vectors(1, 2))
    reopened = EmbeddingCache(tmp_path, IDENTITY)
    assert reopened.missing(hashes("b", "c", "c", "a", "d")).to_pylist() == ["c", "d"]
    assert reopened.vectors(hashes("b", "a", "b")).tolist() == vectors(2, 1, 2).tolist()


def test_what_another_process_adds_meanwhile_is_found_too(tmp_path: Path) -> None:
    cache, other = EmbeddingCache(tmp_path, IDENTITY), EmbeddingCache(tmp_path, IDENTITY)
    cache.add(hashes("a"), vectors(1))
    assert cache.vectors(hashes("a")).tolist() == vectors(1).tolist()
    other.add(hashes("b"), vectors(2))
    assert cache.vectors(hashes("b", "a")).tolist() == vectors(2, 1).tolist()


def test_vectors_keep_the_order_asked_for_over_many_commits(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path, IDENTITY)
    for start in range(0, 50, 10):
        cache.add(hashes(*(f"h{n}" for n in range(start, start + 10))), vectors(*range(start, start + 10)))
    order = np.random.default_rng(7).permutation(50)
    found = cache.vectors(hashes(*(f"h{n}" for n in order)))
    assert found[:, 0].tolist() == order.tolist()


def test_identities_never_share_vectors(tmp_path: Path) -> None:
    EmbeddingCache(tmp_path, IDENTITY).add(hashes("a"), vectors(1))
    other = EmbeddingCache(tmp_path, IDENTITY.model_copy(update={"revision": "2"}))
    assert other.missing(hashes("a")).to_pylist() == ["a"]


def test_a_missing_vector_is_an_error_and_not_a_guess(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path, IDENTITY)
    cache.add(hashes("a"), vectors(1))
    with pytest.raises(StoreError, match="1 of 2 vectors are missing"):
        cache.vectors(hashes("a", "b"))


@pytest.mark.parametrize("bad", [np.full((1, 4), np.nan, dtype=np.float32), np.zeros((1, 3), dtype=np.float32)])
def test_a_vector_that_cannot_be_right_is_refused(tmp_path: Path, bad: np.ndarray) -> None:
    cache = EmbeddingCache(tmp_path, IDENTITY)
    with pytest.raises(StoreError, match="hash/test"):
        cache.add(hashes("a"), bad)
    assert cache.missing(hashes("a")).to_pylist() == ["a"]


def test_the_same_hash_added_twice_is_read_once(tmp_path: Path) -> None:
    first, second = EmbeddingCache(tmp_path, IDENTITY), EmbeddingCache(tmp_path, IDENTITY)
    first.add(hashes("a"), vectors(1))
    second.add(hashes("a"), vectors(1))
    assert EmbeddingCache(tmp_path, IDENTITY).vectors(hashes("a")).tolist() == vectors(1).tolist()
