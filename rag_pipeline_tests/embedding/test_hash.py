"""Provider hash: spelling, counted and hashed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_pipeline.embedding import hash as hash_provider
from rag_pipeline.embedding.hash import HashEmbedder, WordTokenizer

TEXTS = ["The kettle near the window", "kettles near windows", "An entirely different sentence", "我们在这里", "a", "!!"]


def test_vectors_have_the_asked_width_and_length_one() -> None:
    for dimensions in (1, 64, 256, 1000):
        vectors = HashEmbedder(dimensions).embed_documents(TEXTS)
        assert vectors.shape == (len(TEXTS), dimensions)
        assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(HashEmbedder().embed_documents(TEXTS), axis=1), 1, atol=1e-6)


def test_texts_spelt_alike_are_closer_than_others() -> None:
    vectors = HashEmbedder().embed_documents(TEXTS)
    alike, other = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert alike > 0.4 > other


def test_white_space_and_capitals_do_not_count() -> None:
    embedder = HashEmbedder()
    assert np.array_equal(embedder.embed_query(" The\n KETTLE\t"), embedder.embed_query("the kettle"))


def test_words_count_whatever_their_order() -> None:
    embedder = HashEmbedder()
    assert np.array_equal(embedder.embed_query("kettle lantern"), embedder.embed_query("lantern kettle"))
    assert not np.array_equal(embedder.embed_query("kettle"), embedder.embed_query("elttek"))


@pytest.mark.parametrize("text", ["", "   ", "\n\t\u3000"])
def test_a_text_without_tokens_gives_the_zero_vector(text: str) -> None:
    assert WordTokenizer().count([text])[0] == 0
    assert not HashEmbedder().embed_query(text).any()


@settings(max_examples=100)
@given(batch=st.lists(st.text(max_size=40), max_size=12))
def test_not_a_bit_of_a_vector_depends_on_the_texts_beside_it(batch: list[str]) -> None:
    embedder = HashEmbedder(64)
    together = embedder.embed_documents(batch)
    alone = np.array([embedder.embed_query(text) for text in batch]).reshape(together.shape)
    assert np.isfinite(together).all()
    assert np.array_equal(together, alone)


def test_vectors_are_the_same_in_every_process_and_on_every_machine() -> None:
    program = (
        "import hashlib\n"
        "from rag_pipeline.embedding.hash import HashEmbedder\n"
        f"vectors = HashEmbedder().embed_documents({TEXTS!r})\n"
        "print(hashlib.sha256(vectors.astype('<f4').tobytes()).hexdigest())\n"
    )
    root = Path(hash_provider.__file__).parents[2]
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(root), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    here = hashlib.sha256(HashEmbedder().embed_documents(TEXTS).astype("<f4").tobytes()).hexdigest()
    assert done.stdout.strip() == here
    assert here == "24ba4b6b9ff5b93a1a8b452c4e2e07c478673bbd35b41dd54dc672eb29dca0a1"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The kettle's lid.", 6),
        ("snake_case + x1", 3),
        ("我们 在", 2),
        ("e\u0301te\u0301", 1),
        ("\U00020000\U00020001", 1),
        ("...", 3),
    ],
)
def test_a_token_is_a_word_or_a_mark(text: str, tokens: int) -> None:
    assert WordTokenizer().count([text]).tolist() == [tokens]


@settings(max_examples=200)
@given(batch=st.lists(st.text(max_size=40), max_size=5))
def test_pieces_cover_a_text_and_count_its_tokens(batch: list[str]) -> None:
    tokenizer = WordTokenizer()
    counts = tokenizer.count(batch).tolist()
    for text, count in zip(batch, counts, strict=True):
        ends, tokens = tokenizer.pieces(text)
        assert ends.tolist() == sorted(set(ends.tolist()))
        assert (ends[-1] if len(ends) else 0) == len(text)
        assert tokens.sum() == count
