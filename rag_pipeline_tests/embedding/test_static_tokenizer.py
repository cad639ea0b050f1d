"""The static model's tokenizer gives the tokens of the model's own tokenizer, piece by piece."""

from __future__ import annotations

import importlib.util
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from rag_pipeline.embedding.pieces import BytePairTokenizer, PieceTokens
from rag_pipeline.errors import EmbeddingError

SAMPLES = (
    'The quick brown fox; it jumps (over) the lazy dog\'s "back".',
    "  two  and   three    spaces, and a tab\there\t\t",
    "\n\nlines\r\nof two kinds\r\n",
    'fn main() { let x: Vec<&str> = vec!["a"]; }\n    indented();',
    "Ünïcödé café naïve Straße Łódź ğüşıİ",
    "Привет, мир! Ελληνικά; עברית. العربية؟",
    "我们在这里。東京は首都です。한국어 문장",
    "👨‍👩‍👧‍👦🏳️‍🌈👍🏽 e\u0301 \u200b\ufeff \u3000",
    "1234567890 3.14 1e-9 0xFF",
    "▁already▁▁spaced ▁ out",
    "https://example.org/a/b?c=d&e=f#g_h-i",
    "\x00\x01\x7f\x85\u2028",
)

texts = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(SAMPLES), max_size=3).map("".join),
    st.text(alphabet="aA .,_-()<>/=\"'\n\r\t ▁1é我", max_size=60),
)


def tokenizer_file() -> Path:
    spec = importlib.util.find_spec("wordllama")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "tokenizers" / "l2_supercat_tokenizer_config.json"


def load() -> BytePairTokenizer:
    return BytePairTokenizer(tokenizer_file().read_bytes(), "tokenizer.json")


OURS = load()
THEIRS: Any = Tokenizer.from_file(str(tokenizer_file()))


def their_tokens(text: str) -> list[int]:
    tokens: list[int] = THEIRS.encode(text, add_special_tokens=False).ids
    return tokens


def our_tokens(text: str) -> list[int]:
    tokens: list[int] = OURS.tokenise([text]).tokens.tolist()
    return tokens


@pytest.mark.parametrize("text", SAMPLES)
def test_tokens_are_those_of_the_models_own_tokenizer(text: str) -> None:
    assert our_tokens(text) == their_tokens(text)


@settings(max_examples=500)
@given(batch=st.lists(texts, max_size=5))
def test_any_batch_is_tokenised_like_each_text_by_the_models_own_tokenizer(batch: list[str]) -> None:
    expected = [their_tokens(text) for text in batch]
    tokenised = OURS.tokenise(batch)
    bounds = tokenised.offsets.tolist()
    assert [tokenised.tokens[low:high].tolist() for low, high in pairwise(bounds)] == expected
    assert OURS.count(batch).tolist() == [len(tokens) for tokens in expected]


@settings(max_examples=300)
@given(text=texts.filter(bool), data=st.data())
def test_a_span_of_whole_pieces_has_their_tokens_but_for_the_first(text: str, data: st.DataObject) -> None:
    ends, tokens = OURS.pieces(text)
    assert ends.tolist() == sorted(set(ends.tolist()))
    assert ends[-1] == len(text)
    assert (tokens > 0).all()
    first = data.draw(st.integers(0, len(ends) - 1))
    last = data.draw(st.integers(first, len(ends) - 1))
    start = int(ends[first - 1]) if first else 0
    span, alone = OURS.count([text[start : ends[last]], text[start : ends[first]]]).tolist()
    assert span == alone + int(tokens[first + 1 : last + 1].sum())


def test_an_empty_text_has_no_tokens_and_no_pieces() -> None:
    assert OURS.count(["", "a", ""]).tolist() == [0, 1, 0]
    assert OURS.count([]).tolist() == []
    assert [array.tolist() for array in OURS.pieces("")] == [[], []]


@pytest.mark.parametrize("text", ["<s>", "</s>", "<unk>", "a <s> b", "<|endoftext|><|im_start|>[MASK]<pad>"])
def test_what_looks_like_a_control_token_is_text(text: str) -> None:
    tokens = our_tokens(text)
    assert not set(tokens) & {0, 1, 2}
    assert "".join(map(THEIRS.id_to_token, tokens)) == "▁" + text.replace(" ", "▁")


def test_a_lone_surrogate_counts_as_a_question_mark() -> None:
    assert our_tokens("a\ud800b") == their_tokens("a?b")
    assert OURS.pieces("a\ud800\U0001f600b")[0][-1] == 4


def test_many_texts_are_counted_block_by_block() -> None:
    long = "kettle and lantern " * 40_000
    batch = [long, "kettle", long, "", "lantern"] * 2
    assert OURS.count(batch).tolist() == [len(their_tokens(text)) for text in batch]


def test_a_full_table_of_pieces_is_forgotten_and_nothing_changes() -> None:
    tokenizer = load()
    tokenizer._pieces = PieceTokens(tokenizer._tokenise, max_pieces=20)
    for _ in range(2):
        for text in SAMPLES:
            assert tokenizer.tokenise([text]).tokens.tolist() == their_tokens(text)
    assert len(tokenizer._pieces) < 100


def test_threads_may_share_a_tokenizer() -> None:
    tokenizer = load()
    tokenizer._pieces = PieceTokens(tokenizer._tokenise, max_pieces=200)
    words = [f"{word}{number}" for number in range(40) for word in ("kettle", "Lantern", "ὕδωρ")]
    batches = [[f"{word} {shift} {text}" for word in words for text in SAMPLES[:3]] for shift in range(8)]
    expected = [[len(their_tokens(text)) for text in batch] for batch in batches]
    results: list[list[int]] = [[] for _ in batches]

    def count(index: int) -> None:
        results[index] = tokenizer.count(batches[index]).tolist()

    threads = [threading.Thread(target=count, args=(index,)) for index in range(len(batches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == expected


@pytest.mark.parametrize("data", [b"", b"{}", b"no tokenizer"])
def test_another_file_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(EmbeddingError, match=r"somewhere/tokenizer\.json"):
        BytePairTokenizer(data, "somewhere/tokenizer.json")


def test_a_tokenizer_of_another_kind_is_refused() -> None:
    other: Any = Tokenizer.from_file(str(tokenizer_file()))
    other.normalizer = None
    with pytest.raises(EmbeddingError, match="Llama 2"):
        BytePairTokenizer(other.to_str().encode(), "tokenizer.json")


def test_every_token_of_a_long_text_is_counted_once() -> None:
    text = " ".join(SAMPLES) * 6000
    assert len(text) > 2 << 20
    ends, tokens = OURS.pieces(text)
    assert np.all(np.diff(ends) > 0)
    assert ends[-1] == len(text)
    assert tokens.sum() == OURS.count([text])[0]
