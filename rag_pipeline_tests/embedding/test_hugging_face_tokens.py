"""Tokens are counted as the model's own tokenizer counts them, word by word where that gives the same."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from rag_pipeline.chunking import chunk_document
from rag_pipeline.config import ChunkingConfig, EmbedderConfig
from rag_pipeline.contracts import EmbedderIdentity, Parsed
from rag_pipeline.embedding.hugging_face_tokens import HuggingFaceTokenizer
from rag_pipeline.embedding.local_models import configured_revision, named_revision, room_for_text
from rag_pipeline.errors import EmbeddingError

SAMPLES = (
    'The quick brown fox; it jumps (over) the lazy dog\'s "back".',
    "  two  and   three    spaces, and a tab\there\t\t",
    "\n\nlines\r\nof two kinds\r\n",
    'fn main() { let x: Vec<&str> = vec!["a"]; }\n    indented();',
    "Ünïcödé café naïve Straße Łódź ğüşıİ",
    "我们在这里。東京は首都です。한국어 문장",
    "👨‍👩‍👧‍👦🏳️‍🌈👍🏽 e\u0301 \u0301x \u200b\ufeff \u3000\u00a0|",
    "a\x0bb\x0cc\x1cd\x85e\u2028f\x00g",
    "https://example.org/a/very/long/path/that/goes/on?c=d&e=f#g_h-i",
    "[CLS] a [SEP]b[PAD] </s> <s> [UNK]",
    "x" * 250,
)

texts = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(SAMPLES), max_size=3).map("".join),
    st.text(alphabet="aA .,_-()[]CLSEP\n\r\t\x0b\u00a0\u0301é我", max_size=80),
)

CONTROL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "<s>", "</s>"]


@lru_cache
def word_piece() -> Tokenizer:
    """Of BERT's kind, with a limit, padding and marks around every text."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(SAMPLES * 3, trainers.WordPieceTrainer(vocab_size=300, special_tokens=CONTROL_TOKENS))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(max_length=16)
    tokenizer.enable_padding(length=16)
    return tokenizer


@lru_cache
def unigram() -> Tokenizer:
    """Of XLM-RoBERTa's kind."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=CONTROL_TOKENS, unk_token="[UNK]")
    tokenizer.train_from_iterator(SAMPLES * 3, trainer)
    return tokenizer


@lru_cache
def byte_level() -> Tokenizer:
    """Of GPT-2's kind, to which the white space before a word belongs."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=CONTROL_TOKENS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(SAMPLES * 3, trainer)
    return tokenizer


KINDS: tuple[Callable[[], Tokenizer], ...] = (word_piece, unigram, byte_level)
every_kind = pytest.mark.parametrize("kind", KINDS)


@lru_cache
def ours(kind: Callable[[], Tokenizer]) -> HuggingFaceTokenizer:
    return HuggingFaceTokenizer(kind())


@lru_cache
def theirs(kind: Callable[[], Tokenizer]) -> Any:
    tokenizer = Tokenizer.from_str(kind().to_str())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def their_count(kind: Callable[[], Tokenizer], text: str) -> int:
    return len(theirs(kind).encode(text, add_special_tokens=False).ids)


@every_kind
@settings(max_examples=300)
@given(batch=st.lists(texts, max_size=5))
def test_any_batch_counts_like_each_text_by_the_models_own_tokenizer(
    kind: Callable[[], Tokenizer], batch: list[str]
) -> None:
    assert ours(kind).count(batch).tolist() == [their_count(kind, text) for text in batch]


@every_kind
@settings(max_examples=300)
@given(text=texts)
def test_pieces_cover_a_text_from_its_start_to_its_end(kind: Callable[[], Tokenizer], text: str) -> None:
    ends, tokens = ours(kind).pieces(text)
    assert ends.tolist() == sorted(set(ends.tolist()))
    assert (ends[-1] if len(ends) else 0) == len(text)
    assert len(tokens) == len(ends)
    assert (tokens >= 0).all()


@pytest.mark.parametrize("kind", [word_piece, unigram])
@settings(max_examples=300)
@given(text=texts)
def test_pieces_of_a_tokenizer_that_begins_anew_at_white_space_add_up(kind: Callable[[], Tokenizer], text: str) -> None:
    assert ours(kind).pieces(text)[1].sum() == their_count(kind, text)


@every_kind
def test_a_span_of_whole_pieces_has_about_the_tokens_of_its_pieces(kind: Callable[[], Tokenizer]) -> None:
    text = "\n".join([SAMPLES[0], SAMPLES[3], SAMPLES[4], SAMPLES[5]]) * 3
    ends, tokens = ours(kind).pieces(text)
    sums = np.append(0, np.cumsum(tokens))
    starts = np.append(0, ends)
    for first in range(0, len(ends), 7):
        for last in range(first + 10, len(ends), 13):
            span = text[starts[first] : starts[last]]
            if not span[-1].isspace():  # no chunk ends so
                assert abs(their_count(kind, span) - (sums[last] - sums[first])) <= 2, span


@every_kind
def test_a_long_word_is_cut_into_its_tokens(kind: Callable[[], Tokenizer]) -> None:
    text = "before " + "我们在这里東京は首都です" * 20 + " after"
    ends, tokens = ours(kind).pieces(text)
    assert len(ends) > 50
    assert tokens.max() <= 8
    assert tokens.sum() == their_count(kind, text)


@every_kind
def test_control_tokens_in_a_document_count_as_the_text_that_they_are(kind: Callable[[], Tokenizer]) -> None:
    own = Tokenizer.from_str(kind().to_str())
    own.no_padding()
    assert len(own.encode("[SEP]", add_special_tokens=False)) == 1
    assert ours(kind).count(["[SEP]"]).item() == their_count(kind, "[SEP]") > 1


def test_neither_limit_nor_padding_nor_marks_of_the_model_are_counted_and_its_tokenizer_stays_as_it_is() -> None:
    own = word_piece()
    before = own.to_str()
    assert HuggingFaceTokenizer(own).count(["a " * 50, "", " \n"]).tolist() == [50, 0, 0]
    assert own.to_str() == before
    assert len(own.encode("a " * 50)) == 16


def test_a_lone_surrogate_counts_as_a_question_mark_and_moves_no_offset() -> None:
    tokenizer = ours(word_piece)
    assert tokenizer.count(["a \ud800 b"]).tolist() == tokenizer.count(["a ? b"]).tolist()
    assert [part.tolist() for part in tokenizer.pieces("a \ud800 b")] == [
        part.tolist() for part in tokenizer.pieces("a ? b")
    ]


def test_documents_longer_than_a_block_are_counted_and_cut_alike() -> None:
    text = "".join(f"{SAMPLES[index % 5]}\n  \n" for index in range(40_000))
    assert len(text) > 1 << 20
    ends, tokens = ours(word_piece).pieces(text)
    assert (np.diff(ends) > 0).all()
    assert ends[-1] == len(text)
    assert tokens.sum() == ours(word_piece).count([text]).item() == their_count(word_piece, text)


def test_threads_share_a_tokenizer() -> None:
    tokenizer = HuggingFaceTokenizer(word_piece())
    batches = [[f"{sample} {number}" for sample in SAMPLES] for number in range(8)]
    expected = [[their_count(word_piece, text) for text in batch] for batch in batches]
    results: dict[int, list[int]] = {}

    def work(number: int) -> None:
        results[number] = tokenizer.count(batches[number]).tolist()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[number] for number in range(8)] == expected


def test_the_key_names_the_vocabulary_and_not_how_the_model_truncates_and_pads() -> None:
    other = Tokenizer.from_str(word_piece().to_str())
    other.enable_truncation(max_length=99)
    other.no_padding()
    assert HuggingFaceTokenizer(other).key == ours(word_piece).key
    keys = {ours(kind).key for kind in KINDS}
    assert len(keys) == 3


@every_kind
@pytest.mark.parametrize("text", ["\n\n".join(SAMPLES) * 3, "我们在这里。東京は首都です。" * 40, "x9f" * 400])
def test_chunks_cut_with_it_stay_within_their_size(kind: Callable[[], Tokenizer], text: str) -> None:
    config = ChunkingConfig(size=40, overlap=8)
    chunks = chunk_document(Parsed(text=text, media_type="text/plain"), config, ours(kind))
    counts = [their_count(kind, chunk.text) for chunk in chunks]
    assert max(counts) <= 40
    assert len(chunks) <= 3.5 * their_count(kind, text) / 40 + 1


def test_the_room_for_a_text_is_the_models_limit_without_its_marks_and_the_longer_prompt() -> None:
    identity = EmbedderIdentity(
        provider="local", model="m", revision="1", dimensions=8, document_prompt="a a ", query_prompt="a a a a "
    )
    assert room_for_text(16, word_piece(), ours(word_piece), identity) == 16 - 2 - 4
    assert room_for_text(None, word_piece(), ours(word_piece), identity) is None
    with pytest.raises(EmbeddingError, match=r"reads 6 tokens.*shorten embedding\.document_prompt"):
        room_for_text(6, word_piece(), ours(word_piece), identity)


@pytest.mark.parametrize("configured", [None, "v2", "refs/pr/3"])
def test_a_revision_that_was_configured_can_be_read_from_the_identity(configured: str | None) -> None:
    revision = named_revision(EmbedderConfig(provider="local", revision=configured).revision, "0123abcd")
    assert configured_revision(EmbedderIdentity(provider="local", model="m", revision=revision, dimensions=8)) == configured
    assert revision.endswith("0123abcd")
