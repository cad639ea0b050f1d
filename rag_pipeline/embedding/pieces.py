"""The static model's tokenizer: byte-pair encoding of every distinct piece of text once.

Byte-pair encoding joins neighbours into ever longer tokens, and only into tokens of the vocabulary. Two characters that
stand side by side in no token of the vocabulary are therefore never joined, and a text may be cut between them without
changing a single token. With Llama 2's vocabulary that leaves words with their leading spaces, runs of punctuation, and
single digits, line ends and ideographs: a few ten thousand distinct pieces in a whole documentation tree. Cutting is
array arithmetic, telling pieces apart is Arrow's dictionary encoding, and only pieces never seen before are tokenised.

The tokens are those of the model's own tokenizer, with one intended difference: ``<s>``, ``</s>`` and ``<unk>`` in a
document are text like any other, not control tokens.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_pipeline.errors import EmbeddingError

_WORD_START = "▁"  # how the vocabulary spells a space
_BYTE_TOKENS = 259  # <unk>, <s>, </s> and the 256 single bytes come first; none of them takes part in a merge
_CLASS_BITS = 10
_COUNTING = "pieces 1"
"""Part of the tokenizer's key: to be raised when the same vocabulary comes to count otherwise."""
_CHARACTERS_PER_BLOCK = 1 << 20
_NORMALIZER = {
    "type": "Sequence",
    "normalizers": [
        {"type": "Prepend", "prepend": _WORD_START},
        {"type": "Replace", "pattern": {"String": " "}, "content": _WORD_START},
    ],
}

Offsets = npt.NDArray[np.int64]


class Seams:
    """Where a text may be cut: between characters that are neighbours in no token of the vocabulary."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        tokens = [token for token, number in vocabulary.items() if number >= _BYTE_TOKENS and len(token) > 1]
        codes = np.frombuffer("".join(tokens).encode("utf-32-le"), dtype="<u4")
        firsts = np.delete(np.arange(len(codes)), np.cumsum([len(token) for token in tokens]) - 1)
        characters = np.flatnonzero(np.bincount(codes))
        if len(characters) >= 1 << _CLASS_BITS:
            raise EmbeddingError(f"the tokenizer joins {len(characters)} different characters; expected under 1024")
        self._last = int(characters[-1]) + 1
        self._classes = np.zeros(self._last + 1, dtype=np.uint32)  # the last stands for all characters beyond
        self._classes[characters] = np.arange(1, len(characters) + 1)
        self._cut = np.ones(1 << (2 * _CLASS_BITS), dtype=np.bool_)
        self._cut[(self._classes[codes[firsts]] << _CLASS_BITS) | self._classes[codes[firsts + 1]]] = False
        self._classes[ord(" ")] = self._classes[ord(_WORD_START)]

    def between(self, codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """Whether each character of a text but the last ends a piece; shape ``(len(codes) - 1,)``."""
        classes = self._classes.take(codes, mode="clip")
        return self._cut.take((classes[:-1] << _CLASS_BITS) | classes[1:])


class PieceTokens:
    """The tokens of every piece met so far. Forgets all of them when they become too many."""

    def __init__(
        self,
        tokenise: Callable[[Sequence[str]], list[list[int]]],
        max_pieces: int = 500_000,
        max_bytes: int = 64 << 20,
    ) -> None:
        self._tokenise = tokenise
        self._max_pieces = max_pieces
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._bytes = 0
        self._starts = np.zeros(1024, dtype=np.int64)
        self._counts = np.zeros(1024, dtype=np.int64)
        self._tokens = np.zeros(4096, dtype=np.int32)
        self._used = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def look_up(self, pieces: list[bytes]) -> tuple[Offsets, Offsets, npt.NDArray[np.int32]]:
        """The tokens of pieces in UTF-8.

        Returns:
            For each piece where its tokens start and how many they are, and the array in which they lie, which the
            caller only reads: later calls append to it or replace it, they never change what is there.
        """
        with self._lock:
            numbers = self._numbers_of(pieces)
            if (numbers < 0).any():
                if len(self._numbers) > self._max_pieces or self._bytes > self._max_bytes:
                    self._forget()
                    numbers[:] = -1
                self._add([pieces[index] for index in np.flatnonzero(numbers < 0).tolist()])
                numbers = self._numbers_of(pieces)
            return self._starts[numbers], self._counts[numbers], self._tokens

    def _numbers_of(self, pieces: list[bytes]) -> Offsets:
        return np.fromiter(map(self._numbers.get, pieces, repeat(-1)), dtype=np.int64, count=len(pieces))

    def _add(self, pieces: list[bytes]) -> None:
        tokenised = self._tokenise([piece.decode("utf-8") for piece in pieces])
        counts = np.fromiter(map(len, tokenised), dtype=np.int64, count=len(pieces))
        tokens = np.fromiter((token for row in tokenised for token in row), dtype=np.int32, count=int(counts.sum()))
        first = len(self._numbers)
        self._numbers.update(zip(pieces, range(first, first + len(pieces)), strict=True))
        self._bytes += sum(map(len, pieces))
        self._starts = _room_for(self._starts, first, len(pieces))
        self._counts = _room_for(self._counts, first, len(pieces))
        self._tokens = _room_for(self._tokens, self._used, len(tokens))
        self._starts[first : first + len(pieces)] = self._used + np.cumsum(counts) - counts
        self._counts[first : first + len(pieces)] = counts
        self._tokens[self._used : self._used + len(tokens)] = tokens
        self._used += len(tokens)


def _room_for(array: npt.NDArray[Any], used: int, more: int) -> npt.NDArray[Any]:
    if used + more <= len(array):
        return array
    grown = np.zeros(max(2 * len(array), used + more), dtype=array.dtype)
    grown[:used] = array[:used]
    return grown


@dataclass(frozen=True)
class TokenisedTexts:
    """The tokens of texts, one after the other: those of text ``i`` are ``tokens[offsets[i]:offsets[i + 1]]``."""

    tokens: npt.NDArray[np.int32]
    offsets: Offsets


@dataclass(frozen=True)
class _CutText:
    """The pieces of a text: where each ends, in characters, and which of the distinct ones it is."""

    ends: Offsets
    piece: npt.NDArray[np.int32]
    starts: Offsets
    counts: Offsets
    tokens: npt.NDArray[np.int32]


class BytePairTokenizer:
    """Tokenises as the static model's own tokenizer does. Safe to use from several threads.

    Args:
        data: the tokenizer as the ``tokenizers`` library stores it.
        name: what it was read from, for messages.

    Raises:
        EmbeddingError: this is no byte-pair tokenizer of Llama 2's kind.
    """

    def __init__(self, data: bytes, name: str) -> None:
        from tokenizers import Tokenizer
        from tokenizers.models import BPE

        try:
            tokenizer = Tokenizer.from_buffer(data)
        except Exception as error:  # noqa: BLE001 - the library raises bare Exception for whatever it cannot read
            raise EmbeddingError(f"{name}: cannot be read as a tokenizer: {error}") from None
        normalizer = tokenizer.normalizer
        known = normalizer is not None and json.loads(normalizer.__getstate__()) == _NORMALIZER
        if not known or tokenizer.pre_tokenizer is not None or not isinstance(tokenizer.model, BPE):
            raise EmbeddingError(f"{name}: expected a tokenizer of Llama 2's kind (wordllama 0.4)")
        # The model alone knows neither normalizer nor control tokens: spaces are spelled here.
        self._model: Any = tokenizer.model
        self._seams = Seams(tokenizer.get_vocab())
        self._pieces = PieceTokens(self._tokenise)
        self.key = f"{_COUNTING} {hashlib.sha256(data).hexdigest()[:32]}"

    def count(self, texts: Sequence[str]) -> Offsets:
        """Tokens of each text standing alone, shape ``(len(texts),)``."""
        counts = np.zeros(len(texts), dtype=np.int64)
        for first, block in text_blocks(texts):
            cut, bounds = self._cut_texts(block)
            total = np.append(0, np.cumsum(cut.counts[cut.piece]))
            counts[first : first + len(block)] = np.diff(total[bounds])
        return counts

    def pieces(self, text: str) -> tuple[Offsets, Offsets]:
        """End offset in characters and tokens of every piece of a text; see `contracts.Tokenizer`."""
        no_borders = np.zeros(0, dtype=np.int64)
        ends, tokens = [no_borders], [no_borders]
        for start, block in _line_blocks(text):
            cut = self._cut(block, no_borders)
            ends.append(cut.ends + start)
            tokens.append(cut.counts[cut.piece])
        return np.concatenate(ends), np.concatenate(tokens)

    def tokenise(self, texts: Sequence[str]) -> TokenisedTexts:
        """The tokens of texts. Takes memory for all of them at once."""
        cut, bounds = self._cut_texts(texts)
        counts = cut.counts[cut.piece]
        total = np.append(0, np.cumsum(counts))
        # Token t of piece p lies at starts[p] + t: a running number over all tokens, shifted piece by piece.
        shift = np.repeat(cut.starts[cut.piece] - total[:-1], counts)
        return TokenisedTexts(cut.tokens[np.arange(total[-1]) + shift], total[bounds])

    def _cut_texts(self, texts: Sequence[str]) -> tuple[_CutText, Offsets]:
        """Cut texts, each standing alone; the pieces of text ``i`` are those from ``bounds[i]`` to ``bounds[i + 1]``."""
        spaced = [f" {text}" if text else "" for text in texts]
        borders = np.cumsum([0, *map(len, spaced)])
        cut = self._cut("".join(spaced), borders)
        return cut, np.searchsorted(cut.ends, borders, "right")

    def _cut(self, text: str, borders: Offsets) -> _CutText:
        """Cut a text at every seam and at the given offsets. A lone surrogate counts as '?': UTF-8 has none."""
        codes = np.frombuffer(text.encode("utf-32-le", "replace"), dtype="<u4")
        if not len(codes):
            empty = np.zeros(0, dtype=np.int64)
            return _CutText(empty, np.zeros(0, dtype=np.int32), empty, empty, np.zeros(0, dtype=np.int32))
        last = np.append(self._seams.between(codes), True)
        last[borders[(borders > 0)] - 1] = True
        ends = np.flatnonzero(last) + 1
        data = text.encode("utf-8", "replace")
        byte_ends = ends if len(data) == len(codes) else _byte_ends(codes)[ends - 1]
        offsets = np.zeros(len(ends) + 1, dtype=np.int32)
        offsets[1:] = byte_ends
        pieces = pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
        encoded = pieces.dictionary_encode()
        starts, counts, tokens = self._pieces.look_up(encoded.dictionary.to_pylist())
        return _CutText(ends, encoded.indices.to_numpy(), starts, counts, tokens)

    def _tokenise(self, pieces: Sequence[str]) -> list[list[int]]:
        """The tokens of each piece."""
        return [[token.id for token in self._model.tokenize(piece.replace(" ", _WORD_START))] for piece in pieces]


def _byte_ends(codes: npt.NDArray[np.uint32]) -> Offsets:
    """Where each character of a text ends in UTF-8."""
    length = np.ones(len(codes), dtype=np.uint8)
    for threshold in (0x80, 0x800, 0x10000):
        length += codes >= threshold
    return np.cumsum(length, dtype=np.int64)


def _line_blocks(text: str) -> Iterator[tuple[int, str]]:
    """Runs of whole lines of bounded length together, each with its offset; a longer line stands alone."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + _CHARACTERS_PER_BLOCK) + 1 or len(text)
        yield start, text[start:end]
        start = end


def text_blocks(texts: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """Runs of texts of bounded length together, each with the index of its first; a longer text stands alone."""
    first, length = 0, 0
    for index, text in enumerate(texts):
        if length and length + len(text) > _CHARACTERS_PER_BLOCK:
            yield first, texts[first:index]
            first, length = index, 0
        length += len(text)
    if first < len(texts):
        yield first, texts[first:]
