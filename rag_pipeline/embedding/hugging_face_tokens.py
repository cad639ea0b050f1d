"""Counts tokens with a tokenizer of the ``tokenizers`` library, which most models that run locally carry.

A documentation tree repeats its words: 9 MB of Markdown hold 1.6 million words and 200,000 distinct ones. A text is cut
before white space by array arithmetic, Arrow's dictionary encoding tells the words apart, and only words never met
before are tokenised. Where the tokenizer itself begins anew at white space (BERT's and its kin), the sum over the words
is the exact count. Any other tokenizer counts a text as a whole, and the words only tell where its tokens lie.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_pipeline.embedding.pieces import PieceTokens, text_blocks

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Offsets = npt.NDArray[np.int64]

_COUNTING = "hugging face 1"
"""Part of the tokenizer's key: to be raised when the same tokenizer comes to count otherwise."""

_SPACES = (" ", "\n", "\t", "\r")
"""BERT's tokenizer removes other characters that Unicode calls white space, and joins what stands beside them."""

_LONGEST_WORD = 32
"""Characters. A longer one (a line of Chinese, a blob) is cut into its tokens, so that a chunk may end within."""

_CHARACTERS_PER_BLOCK = 1 << 20
_TEXTS_PER_CALL = 1024

_SPLIT_AT_SPACES = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
_LOCAL_NORMALIZERS = {
    "BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled", "Strip", "StripAccents",
}  # fmt: skip
"""They change characters without a look beyond the white space beside them."""


class HuggingFaceTokenizer:
    """Counts as a model's tokenizer does, without the tokens that it puts around every text.

    What looks like a control token in a document (``[SEP]``, ``</s>``) counts as the text that it is. A lone surrogate
    counts as ``?``. Safe to use from several threads.

    Args:
        tokenizer: the model's own, which is copied; neither its truncation nor its padding plays a part.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        from tokenizers import Tokenizer as Copy

        self._model: Any = Copy.from_str(tokenizer.to_str())
        self._model.no_truncation()
        self._model.no_padding()
        self._model.encode_special_tokens = True
        definition = json.loads(self._model.to_str())
        canonical = json.dumps(definition, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        self.key = f"{_COUNTING} {hashlib.sha256(canonical.encode()).hexdigest()[:32]}"
        self._word_by_word = _begins_anew_at_spaces(definition)
        self._words = PieceTokens(self._tokenise)

    def count(self, texts: Sequence[str]) -> Offsets:
        """Tokens of each text standing alone, shape ``(len(texts),)``."""
        counts = np.zeros(len(texts), dtype=np.int64)
        for first, block in text_blocks(texts):
            counts[first : first + len(block)] = self._counts(block)
        return counts

    def pieces(self, text: str) -> tuple[Offsets, Offsets]:
        """End offset in characters and tokens of every piece of a text; see `contracts.Tokenizer`.

        A word is a piece and so is the white space before it, whose tokens are told with the word. A word of more than
        32 characters is one piece a token.
        """
        no_offsets = np.zeros(0, dtype=np.int64)
        ends, tokens = [no_offsets], [no_offsets]
        for start, block in _space_blocks(encodable(text)):
            block_ends, block_tokens = self._block_pieces(block)
            ends.append(block_ends + start)
            tokens.append(block_tokens)
        return np.concatenate(ends), np.concatenate(tokens)

    def _counts(self, texts: Sequence[str]) -> Offsets:
        texts = [encodable(text) for text in texts]
        if not self._word_by_word:
            return np.fromiter(map(len, self._encoded(texts)), dtype=np.int64, count=len(texts))
        borders = np.cumsum([0, *map(len, texts)])
        ends, counts = self._word_counts("".join(texts), borders)
        return np.diff(np.append(0, np.cumsum(counts))[np.searchsorted(ends, borders, "right")])

    def _word_counts(self, text: str, borders: Offsets) -> tuple[Offsets, Offsets]:
        """Where each word ends, together with the white space before it, and its tokens."""
        codes = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
        if not len(codes):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        space = _spaces(codes)
        last = np.append(space[1:] & ~space[:-1], True)
        last[borders[borders > 0] - 1] = True
        ends = np.flatnonzero(last) + 1
        offsets = np.zeros(len(ends) + 1, dtype=np.int32)
        offsets[1:] = _byte_ends(codes)[ends - 1]
        data = pa.py_buffer(text.encode("utf-8"))
        encoded = pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), data]).dictionary_encode()
        _, counts, _ = self._words.look_up(encoded.dictionary.to_pylist())
        return ends, counts[encoded.indices.to_numpy()]

    def _block_pieces(self, text: str) -> tuple[Offsets, Offsets]:
        ends, counts = self._word_counts(text, np.zeros(0, dtype=np.int64))
        starts = np.append(0, ends)[:-1]
        space = _spaces(np.frombuffer(text.encode("utf-32-le"), dtype="<u4"))
        word_starts = np.flatnonzero(space[:-1] & ~space[1:]) + 1
        white = np.diff(np.append(0, np.cumsum(space))[np.append(0, ends)])
        long = ends - starts - white > _LONGEST_WORD
        words = [text[start:end] for start, end in zip(starts[long].tolist(), ends[long].tolist(), strict=True)]
        inner_ends, inner_counts = self._token_pieces(words, starts[long])
        joined = np.concatenate([ends[~long], word_starts, inner_ends])
        tokens = np.concatenate([counts[~long], np.zeros(len(word_starts), dtype=np.int64), inner_counts])
        piece_ends, piece = np.unique(joined, return_inverse=True)
        return piece_ends, np.bincount(piece, weights=tokens).astype(np.int64)

    def _token_pieces(self, words: Sequence[str], starts: Offsets) -> tuple[Offsets, Offsets]:
        """Where the tokens of words end that start at the given offsets; tokens that share a character are one piece."""
        if not words:
            return starts, starts
        encodings = self._model.encode_batch(list(words), add_special_tokens=False)
        lengths = np.fromiter(map(len, encodings), dtype=np.int64, count=len(words))
        inner = (end for encoding in encodings for _, end in encoding.offsets)
        token_ends = np.fromiter(inner, dtype=np.int64, count=int(lengths.sum())) + np.repeat(starts, lengths)
        word_ends = starts + np.fromiter(map(len, words), dtype=np.int64, count=len(words))
        # The end of a word is one end more than it has tokens: its last characters may have none.
        ends, counts = np.unique(np.append(np.maximum.accumulate(token_ends), word_ends), return_counts=True)
        return ends, counts - np.isin(ends, word_ends)

    def _tokenise(self, words: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._encoded(words)]

    def _encoded(self, texts: Sequence[str]) -> Iterator[Any]:
        for first in range(0, len(texts), _TEXTS_PER_CALL):
            yield from self._model.encode_batch_fast(list(texts[first : first + _TEXTS_PER_CALL]), add_special_tokens=False)


def encodable(text: str) -> str:
    """The text with ``?`` for every lone surrogate, which UTF-8 does not have and tokenizers do not take."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _begins_anew_at_spaces(definition: dict[str, Any]) -> bool:
    """Whether a text's tokens are those of its words, told from how the tokenizer is put together."""
    steps = _steps(definition["pre_tokenizer"], "pretokenizers")
    normalizers = _steps(definition["normalizer"], "normalizers")
    reaching = [
        token["content"]
        for token in definition["added_tokens"]
        if not token["special"] and (token["lstrip"] or token["rstrip"] or set(token["content"]) & set(_SPACES))
    ]
    return (
        bool(steps)
        and steps[0]["type"] in _SPLIT_AT_SPACES
        and all(step["type"] in _LOCAL_NORMALIZERS for step in normalizers)
        and not reaching
    )


def _steps(part: dict[str, Any] | None, children: str) -> list[dict[str, Any]]:
    if part is None:
        return []
    if part["type"] == "Sequence":
        return [step for child in part[children] for step in _steps(child, children)]
    return [part]


def _spaces(codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    space = np.zeros(len(codes), dtype=np.bool_)
    for character in _SPACES:
        space |= codes == ord(character)
    return space


def _byte_ends(codes: npt.NDArray[np.uint32]) -> Offsets:
    """Where each character of a text ends in UTF-8."""
    length = np.ones(len(codes), dtype=np.uint8)
    for threshold in (0x80, 0x800, 0x10000):
        length += codes >= threshold
    return np.cumsum(length, dtype=np.int64)


def _space_blocks(text: str) -> Iterator[tuple[int, str]]:
    """Parts of bounded length, each with its offset, cut before a line end; a longer line stands alone."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + _CHARACTERS_PER_BLOCK)
        while end > 0 and text[end - 1] in _SPACES:
            end -= 1
        end = end if end > start else len(text)
        yield start, text[start:end]
        start = end
