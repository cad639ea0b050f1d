"""Text -> terms of the lexical index. Documents and queries go through the same code.

Text is normalised (NFKC) and case-folded; words are runs of letters, digits, marks and underscores, stemmed by the
Snowball algorithm of the corpus's language. Nothing is dropped as a stop word, and accents stay. Beyond that:

- Scripts that put no spaces between words (Chinese, Japanese, Korean, Thai, Lao, Khmer, Myanmar) become overlapping
  pairs of characters, so that any substring is found; a Han character is a term by itself as well.
- What programmers write as one name (``node.js``, ``get_user_name``, ``HTTPServer``, ``src/app.py``, ``--where``,
  ``C++``, ``1.2.3``) is a term as a whole, and so are its parts. The whole is rarer than its parts and ranks first.
  A pair such as ``e-mail`` or ``IL-6`` is joined (``email``), since both spellings are in use.
- Terms of more than 64 characters are left out: they are encoded data, and every one of them is new.

No character of a text or a query is syntax.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from rag_pipeline.config import LexicalConfig
from rag_pipeline.index.ranges import concatenated_ranges
from rag_pipeline.index.stop_words import STOP_WORDS
from rag_pipeline.index.tokens import tokens_of
from rag_pipeline.index.words import words_of

ANALYZER_VERSION = 2
"""Raised whenever the same text would give other terms: an index of another version is built anew."""

MAX_TERM_LENGTH = 64

_CHARACTERS_PER_BATCH = 2**20
_CACHED_TOKENS = 2**18
_LONGEST_CACHED_TOKEN = 256


class Analyzer:
    """Turns text into terms as one configuration says. Safe to share between threads.

    Args:
        config: its ``language`` names the Snowball stemmer; ``none`` leaves words as they are, and ``auto`` must be
            resolved before (`index.language`).
    """

    def __init__(self, config: LexicalConfig) -> None:
        if config.language == "auto":
            raise ValueError("language 'auto' must be resolved by the corpus's text before text is analysed")
        self.language = config.language
        self._stemmer: Any = None
        if config.language != "none":
            import Stemmer

            self._stemmer = Stemmer.Stemmer(config.language)
        self._expansions: dict[str, tuple[str, ...]] = {}
        self._lock = threading.Lock()
        self._stop_terms = frozenset(self.terms(" ".join(sorted(STOP_WORDS.get(config.language, ())))))

    def query_terms(self, text: str) -> list[str]:
        """The terms of a query: those of its text, without stop words unless it holds nothing else."""
        terms = self.terms(text)
        telling = [term for term in terms if term not in self._stop_terms]
        return telling or terms

    def is_name(self, text: str) -> bool:
        """Whether a text is nothing but one name as programmers write them, such as ``get_user`` or ``src/app.py``."""
        tokens = tokens_of([text]).texts.to_pylist()
        return len(tokens) == 1 and len(list(words_of(tokens[0], self.language))) > 1

    def terms(self, text: str) -> list[str]:
        """The terms of one text, such as a query, in their order and as often as they occur."""
        terms: list[str] = self.analyze([text])[0].as_py()
        return terms

    def analyze(self, texts: pa.Array | pa.ChunkedArray | Sequence[str]) -> pa.LargeListArray:
        """The terms of every text.

        Args:
            texts: strings; a null has no terms.

        Returns:
            ``LargeList<Dictionary<int32, large_string>>``, one list a text. The dictionary holds distinct terms in no
            particular order.
        """
        strings = texts.to_pylist() if isinstance(texts, (pa.Array, pa.ChunkedArray)) else list(texts)
        arrays = [self._analyze_batch(batch) for batch in _batches([text or "" for text in strings])]
        if len(arrays) == 1:
            return arrays[0]
        array = pa.chunked_array(arrays).unify_dictionaries().combine_chunks()
        return array.chunk(0) if isinstance(array, pa.ChunkedArray) else array

    def _analyze_batch(self, texts: list[str]) -> pa.LargeListArray:
        found, bounds = tokens_of(texts)
        tokens = found.dictionary_encode()
        token_ids = tokens.indices.to_numpy()
        # Only distinct tokens are taken apart; their terms are then copied to every place where the token stands.
        expansions = self._expand(tokens.dictionary.to_pylist())
        sizes = np.fromiter(map(len, expansions), np.int64, len(expansions))
        terms = pa.array(list(chain.from_iterable(expansions)), pa.large_string()).dictionary_encode()
        positions = concatenated_ranges((np.cumsum(sizes) - sizes)[token_ids], sizes[token_ids])
        values = pa.DictionaryArray.from_arrays(terms.indices.take(pa.array(positions)), terms.dictionary)
        ends = np.concatenate(([0], np.cumsum(sizes[token_ids])))
        return pa.LargeListArray.from_arrays(pa.array(ends[bounds]), values)

    def _expand(self, tokens: Sequence[str]) -> list[tuple[str, ...]]:
        """The terms of every distinct token; those of tokens that were seen before come from a cache."""
        cache = self._expansions
        known = {token: cache.get(token) for token in tokens}
        new = [token for token, terms in known.items() if terms is None]
        if new:
            words = [list(words_of(token, self.language)) for token in new]
            stems = self._stem([word.text for group in words for word in group if word.stem])
            for token, group in zip(new, words, strict=True):
                known[token] = _terms(next(stems) if word.stem else word.text for word in group)
            self._remember({token: known[token] for token in new if len(token) <= _LONGEST_CACHED_TOKEN})
        return [terms or () for terms in known.values()]

    def _stem(self, words: list[str]) -> Iterator[str]:
        if self._stemmer is None:
            return iter(words)
        with self._lock:  # a Snowball stemmer works in a buffer of its own
            return iter(self._stemmer.stemWords(words))

    def _remember(self, expansions: dict[str, Any]) -> None:
        with self._lock:
            if len(self._expansions) + len(expansions) > _CACHED_TOKENS:
                self._expansions = {}
            self._expansions.update(expansions)


def _batches(texts: list[str]) -> Iterator[list[str]]:
    """Runs of texts that hold about a million characters together, and one text at least; one empty run of none."""
    start = length = 0
    for end, text in enumerate(texts):
        if end > start and length + len(text) > _CHARACTERS_PER_BATCH:
            yield texts[start:end]
            start, length = end, 0
        length += len(text)
    yield texts[start:]


def _terms(words: Iterator[str]) -> tuple[str, ...]:
    # Turkish stemming needs the dotless i. After it both are one letter, since the capital of both is typed as I.
    return tuple(word.replace("ı", "i") for word in words if 0 < len(word) <= MAX_TERM_LENGTH)
