"""Provider ``hash``: counts of character n-grams, hashed into a fixed number of dimensions.

Needs no model and knows no meaning: texts are close when they are spelt alike. For tests, and for corpora of names,
numbers and codes. Feature hashing with signs after Weinberger et al., "Feature Hashing for Large Scale Multitask
Learning", ICML 2009; n-grams of 3 to 5 characters that do not cross words after Bojanowski et al., "Enriching Word
Vectors with Subword Information", TACL 2017.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rag_pipeline.contracts import EmbedderIdentity
from rag_pipeline.embedding.base import unit_vectors

PROVIDER = "hash"
DEFAULT_DIMENSIONS = 256
_MODEL = "character-3-5-grams"
_REVISION = "1"
_LENGTHS = (3, 4, 5)
_CHARACTERS_PER_BLOCK = 1 << 18
_CELLS_PER_BLOCK = 1 << 22

_SPACE, _WORD, _MARK = 0, 1, 2


@lru_cache(maxsize=1)
def _kinds() -> npt.NDArray[np.uint8]:
    """For every code point of the first two planes whether it is white space, part of a word, or a mark."""
    characters = map(chr, range(0x20000))
    return np.array(
        [
            _SPACE
            if character.isspace()
            else _WORD
            if character.isalnum() or character == "_" or unicodedata.category(character).startswith("M")
            else _MARK
            for character in characters
        ],
        dtype=np.uint8,
    )


def _codes(text: str) -> npt.NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


class WordTokenizer:
    """A token is a word (letters, digits, underscores and what combines with them) or any other single character."""

    key = "words 1"

    def count(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        borders = np.cumsum([0, *(len(text) + 1 for text in texts)])
        starts = self._starts("\n".join([*texts, ""]))
        return np.diff(np.searchsorted(starts, borders))

    def pieces(self, text: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Pieces of one token each, together with the white space behind it (and before it, for the first)."""
        if not text:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        starts = self._starts(text)
        if not len(starts):
            return np.array([len(text)]), np.zeros(1, dtype=np.int64)
        return np.append(starts[1:], len(text)), np.ones(len(starts), dtype=np.int64)

    def _starts(self, text: str) -> npt.NDArray[np.int64]:
        codes = _codes(text)
        kinds = _kinds()[np.minimum(codes, 0x1FFFF)]
        kinds[codes > 0x1FFFF] = _WORD  # ideographs of the later planes
        before = np.append(_SPACE, kinds[:-1])
        return np.flatnonzero((kinds == _MARK) | ((kinds == _WORD) & (before != _WORD)))


class HashEmbedder:
    """Embeds by hashing n-grams; the same bits on every machine. Safe to use from several threads."""

    batch_size = 4096
    max_tokens = None

    def __init__(self, dimensions: int = DEFAULT_DIMENSIONS) -> None:
        self._identity = EmbedderIdentity(provider=PROVIDER, model=_MODEL, revision=_REVISION, dimensions=dimensions)
        self._tokenizer = WordTokenizer()

    @property
    def identity(self) -> EmbedderIdentity:
        return self._identity

    @property
    def tokenizer(self) -> WordTokenizer:
        return self._tokenizer

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        dimensions = self._identity.dimensions
        vectors = np.zeros((len(texts), dimensions), dtype=np.float32)
        done = 0
        for block in _blocks(texts, max(_CELLS_PER_BLOCK // dimensions, 1)):
            vectors[done : done + len(block)] = unit_vectors(_signed_counts(block, dimensions))
            done += len(block)
        return vectors

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        return np.asarray(self.embed_documents([text])[0])


def _signed_counts(texts: Sequence[str], dimensions: int) -> npt.NDArray[np.int64]:
    """Signed counts of every text's n-grams by bucket, shape ``(len(texts), dimensions)``."""
    padded = [f" {' '.join(text.lower().split())} " for text in texts]
    codes = _codes("".join(padded))
    inside = codes != ord(" ")
    text_of = np.repeat(np.arange(len(texts)), [len(text) for text in padded])
    counts = np.zeros(len(texts) * dimensions, dtype=np.float64)
    for length in _LENGTHS:
        grams = len(codes) - length + 1
        if grams <= 0:
            continue
        # An n-gram may begin or end with the space beside a word, and holds none within.
        whole = inside[1 : 1 + grams].copy()
        hashes = np.full(grams, length, dtype=np.uint64)
        for place in range(length):
            if 1 < place < length - 1:
                whole &= inside[place : place + grams]
            hashes = _mixed(hashes ^ codes[place : place + grams])
        kept = np.flatnonzero(whole)
        signs = np.where(hashes[kept] >> np.uint64(63), 1.0, -1.0)
        buckets = (hashes[kept] % np.uint64(dimensions)).astype(np.int64)
        cells = text_of[kept + 1] * dimensions + buckets
        counts += np.bincount(cells, weights=signs, minlength=len(counts))
    return counts.astype(np.int64).reshape(len(texts), dimensions)


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): every bit depends on every other."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ (values >> np.uint64(31)))


def _blocks(texts: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    first, length = 0, 0
    for index, text in enumerate(texts):
        if index > first and (index - first >= most or length + len(text) > _CHARACTERS_PER_BLOCK):
            yield texts[first:index]
            first, length = index, 0
        length += len(text)
    if first < len(texts):
        yield texts[first:]
