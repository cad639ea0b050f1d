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

import re
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_pipeline.config import LexicalConfig
from rag_pipeline.index.stop_words import STOP_WORDS

ANALYZER_VERSION = 2
"""Raised whenever the same text would give other terms: an index of another version is built anew."""

MAX_TERM_LENGTH = 64

Integers: TypeAlias = npt.NDArray[np.int64]

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
        codes, boundaries = _code_points(texts)
        starts, lengths = _tokens(_classes(codes))
        tokens = _substrings(codes, starts, lengths).dictionary_encode()
        token_ids = tokens.indices.to_numpy()
        # Only distinct tokens are taken apart; their terms are then copied to every place where the token stands.
        expansions = self._expand(tokens.dictionary.to_pylist())
        sizes = np.fromiter(map(len, expansions), np.int64, len(expansions))
        terms = pa.array(list(chain.from_iterable(expansions)), pa.large_string()).dictionary_encode()
        positions = concatenated_ranges((np.cumsum(sizes) - sizes)[token_ids], sizes[token_ids])
        values = pa.DictionaryArray.from_arrays(terms.indices.take(pa.array(positions)), terms.dictionary)
        ends = np.concatenate(([0], np.cumsum(sizes[token_ids])))
        return pa.LargeListArray.from_arrays(pa.array(ends[np.searchsorted(starts, boundaries)]), values)

    def _expand(self, tokens: Sequence[str]) -> list[tuple[str, ...]]:
        """The terms of every distinct token; those of tokens that were seen before come from a cache."""
        cache = self._expansions
        known = {token: cache.get(token) for token in tokens}
        new = [token for token, terms in known.items() if terms is None]
        if new:
            words = [list(_words(token, self.language)) for token in new]
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


def concatenated_ranges(starts: Integers, lengths: Integers) -> Integers:
    """``start, start + 1, ...`` for every start, as many numbers as its length says, one range after the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    result: Integers = np.repeat(starts - ends + lengths, lengths) + np.arange(total)
    return result


def _batches(texts: list[str]) -> Iterator[list[str]]:
    """Runs of texts that hold about a million characters together, and one text at least; one empty run of none."""
    start = length = 0
    for end, text in enumerate(texts):
        if end > start and length + len(text) > _CHARACTERS_PER_BATCH:
            yield texts[start:end]
            start, length = end, 0
        length += len(text)
    yield texts[start:]


def _code_points(texts: list[str]) -> tuple[npt.NDArray[np.uint32], Integers]:
    """The code points of all texts after NFKC, a line break after each text, and where every text begins and ends."""
    normal = [_normalized(text) for text in texts]
    boundaries = np.cumsum([0, *(len(text) + 1 for text in normal)])
    ended = "".join(text + "\n" for text in normal)
    # Lone surrogates, which a command line may hold, become question marks.
    codes = np.frombuffer(ended.encode("utf-32-le", "replace"), "<u4")
    ignored = _classes(codes) == _IGNORED
    if ignored.any():
        boundaries = boundaries - np.concatenate(([0], np.cumsum(ignored)))[boundaries]
        codes = codes[~ignored]
    return codes, boundaries


_NOT_ASCII = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+")


def _normalized(text: str) -> str:
    """NFKC. ASCII stays as it is unless a mark follows: no character composes with an ASCII character after it."""
    return text if text.isascii() else _NOT_ASCII.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)


# Classes of characters. Those from LETTER to UNDERSCORE make words; those from HYPHEN to JOINER may join two words.
_SEPARATOR, _LETTER, _DIGIT, _MARK, _UNDERSCORE, _HYPHEN, _DOT, _COLON, _JOINER, _PLUS, _HASH, _IGNORED = range(12)
_UNKNOWN = 255
# Every class from here on is written without spaces. Han and kana mix within words and count as one script.
_UNSPACED = _HAN = 16
_KANA = 17
_UNSPACED_SCRIPTS: tuple[tuple[tuple[int, int], ...], ...] = (
    ((0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3021, 0x3029), (0x3038, 0x303B), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
     (0xF900, 0xFAFF), (0x20000, 0x323AF)),  # Han
    ((0x3031, 0x3035), (0x3041, 0x3096), (0x309D, 0x309F), (0x30A1, 0x30FA), (0x30FC, 0x30FF), (0x3105, 0x312F),
     (0x31A0, 0x31BF), (0x31F0, 0x31FF), (0x1AFF0, 0x1B16F)),  # Hiragana, Katakana, Bopomofo
    ((0x1100, 0x11FF), (0x3130, 0x318F), (0xA960, 0xA97F), (0xAC00, 0xD7FF)),  # Hangul
    ((0x0E01, 0x0E3A), (0x0E40, 0x0E4E)),  # Thai
    ((0x0E81, 0x0ECE), (0x0EDC, 0x0EDF)),  # Lao
    ((0x1000, 0x103F), (0x1050, 0x108F), (0xA9E0, 0xA9EF), (0xA9FA, 0xA9FE), (0xAA60, 0xAA7F)),  # Myanmar
    ((0x1780, 0x17D3), (0x17D7, 0x17D7), (0x17DC, 0x17DD)),  # Khmer
)  # fmt: skip
_CLASS_OF = {
    "_": _UNDERSCORE, "-": _HYPHEN, "\u2010": _HYPHEN, ".": _DOT, ":": _COLON, "/": _JOINER, "\\": _JOINER,
    "@": _JOINER, "&": _JOINER, "+": _PLUS, "#": _HASH,
    "\u200b": _SEPARATOR,  # zero-width space: a word boundary, though Unicode files it with the ignorable characters
    "\u034f": _IGNORED, "\u0640": _IGNORED,  # grapheme joiner, Arabic elongation
}  # fmt: skip
_TABLE = np.full(0x110000, _UNKNOWN, np.uint8)
"""The class of every code point met so far. Threads that fill it write the same values."""


def _classes(codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
    classes = _TABLE[codes]
    unknown = classes == _UNKNOWN
    if unknown.any():
        for code in np.unique(codes[unknown]).tolist():
            _TABLE[code] = _class(code)
        classes = _TABLE[codes]
    return classes


def _class(code: int) -> int:
    if chr(code) in _CLASS_OF:
        return _CLASS_OF[chr(code)]
    for script, blocks in enumerate(_UNSPACED_SCRIPTS):
        if any(first <= code <= last for first, last in blocks):
            return _UNSPACED + script
    if 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF:  # variation selectors
        return _IGNORED
    category = unicodedata.category(chr(code))
    by_category = {"L": _LETTER, "N": _DIGIT, "Mn": _MARK, "Mc": _MARK, "Cf": _IGNORED}
    return by_category.get(category) or by_category.get(category[0], _SEPARATOR)


def _tokens(classes: npt.NDArray[np.uint8]) -> tuple[Integers, Integers]:
    """Where tokens start, ascending, and how long they are: names as they were written, and unspaced characters."""
    size = len(classes)
    padded = np.zeros(size + 4, np.uint8)
    padded[2:-2] = classes
    before, here, after, after2 = (padded[shift : shift + size] for shift in range(1, 5))
    is_word = (padded >= _LETTER) & (padded <= _UNDERSCORE)
    word_before2, word_before, word, word_after, word_after2 = (is_word[shift : shift + size] for shift in range(5))
    is_blank = (padded == _SEPARATOR) | (padded >= _UNSPACED)
    blank_before2, blank_before = is_blank[:size], is_blank[1 : size + 1]

    joins = (here >= _HYPHEN) & (here <= _JOINER) & word_before & word_after
    first_colon = (after == _COLON) & word_before & word_after2
    second_colon = (before == _COLON) & word_before2 & word_after
    joins |= (here == _COLON) & (first_colon | second_colon)

    letter_after = after == _LETTER
    two_hyphens = (after == _HYPHEN) & (after2 == _LETTER)
    opens = (here == _DOT) & letter_after & ~word_before & (before != _DOT)
    opens |= (here == _HYPHEN) & blank_before & (letter_after | two_hyphens)
    opens_on = (here == _HYPHEN) & letter_after & (before == _HYPHEN) & blank_before2

    last_plus = (here == _PLUS) & (after != _PLUS)
    closes = last_plus & word_before & ~word_after
    closes |= last_plus & (before == _PLUS) & word_before2
    closes |= (here == _PLUS) & word_before & (after == _PLUS) & (after2 != _PLUS)
    closes |= (here == _HASH) & (before == _LETTER) & ~word_after & (after != _HASH)

    # Runs of one group are tokens: 0 stands for what is between them, 1 for names, _HAN also for kana.
    group = (word | joins | opens | opens_on | closes).astype(np.uint8)
    unspaced = here >= _UNSPACED
    group[unspaced] = np.where(here[unspaced] == _KANA, np.uint8(_HAN), here[unspaced])
    changes = np.flatnonzero((group[1:] != group[:-1]) | opens[1:]) + 1
    starts = np.concatenate(([0], changes))
    lengths = np.diff(starts, append=size)
    kept = group[starts] != 0 if size else np.zeros(1, np.bool_)
    starts, lengths = starts[kept], lengths[kept]
    return _unspaced_tokens(starts, lengths, here) if unspaced.any() else (starts, lengths)


def _unspaced_tokens(starts: Integers, lengths: Integers, classes: npt.NDArray[np.uint8]) -> tuple[Integers, Integers]:
    """Cut runs of unspaced characters into overlapping pairs, and into single characters where they are Han."""
    unspaced = classes[starts] >= _UNSPACED
    runs, sizes = starts[unspaced], lengths[unspaced]
    characters = concatenated_ranges(runs, sizes)
    alone = (classes[characters] == _HAN) | (np.repeat(sizes, sizes) == 1)
    followed = np.ones(len(characters), np.bool_)
    followed[np.cumsum(sizes) - 1] = False
    all_starts = np.concatenate((starts[~unspaced], characters[alone], characters[followed]))
    all_lengths = np.concatenate((lengths[~unspaced], np.full(alone.sum(), 1), np.full(followed.sum(), 2)))
    order = np.argsort(all_starts, kind="stable")
    return all_starts[order], all_lengths[order]


def _substrings(codes: npt.NDArray[np.uint32], starts: Integers, lengths: Integers) -> pa.LargeStringArray:
    characters = codes[concatenated_ranges(starts, lengths)]
    data = characters.tobytes().decode("utf-32-le").encode()
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    if len(data) != len(characters):
        widths = 1 + (characters >= 0x80) + (characters >= 0x800) + (characters >= 0x10000)
        offsets = np.concatenate(([0], np.cumsum(widths)))[offsets]
    return pa.LargeStringArray.from_buffers(len(starts), pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data))


class _Word(NamedTuple):
    """Folded text, and whether the stemmer of the language may shorten it: names and numbers stay as they are."""

    text: str
    stem: bool


_LEVELS = tuple(map(re.compile, (r"[/\\:@&]+", r"\.", r"[-\u2010]", r"(?<=\+\+)(?=\w)")))
"""Where names come apart, the loosest bond first: paths, dots, hyphens, ``C++17``."""
_DOTS, _HYPHENS = 1, 2
_VERSION = re.compile(r"([vV]?)(\d+(?:\.\d+)+)")
_SHORTEST_RUN = 3
_ENCODED_LENGTH = 12
_CHANGE = re.compile(r"[a-z](?=[A-Z\d])|[A-Z](?=[A-Z][a-z]|\d)|\d(?=[A-Za-z])")


def _words(token: str, language: str) -> Iterator[_Word]:
    """The words of one token: the whole, then its parts, from large to small."""
    if token.isalpha() and (token[1:].islower() or len(token) == 1):
        yield _Word(_fold(token, language), True)
        return
    body = token.lstrip(".-\u2010")
    if body != token:
        yield _Word(_fold(token, language), False)
    if "-" not in body and _is_encoded(body):
        yield _Word(_fold(body, language), False)
        return
    yield from _split(body, 0, language)


def _split(name: str, level: int, language: str) -> Iterator[_Word]:
    if level == len(_LEVELS):
        yield from _split_word(name, language)
        return
    parts = _LEVELS[level].split(name)
    if level == _HYPHENS and len(parts) == 2:
        joined = "".join(parts)
        yield _Word(_fold(joined, language), _is_word(joined))
    elif len(parts) > 1:
        whole = _fold(name, language).replace("\u2010", "-")
        yield _Word(whole, False)
        if level == _DOTS and (version := _VERSION.match(name)):
            if version[1]:
                yield _Word(whole[1:], False)
            if version.end() < len(name):
                yield _Word(version[2], False)  # 1.2.3 of 1.2.3-rc1
    for part in parts:
        yield from _split(part, level + 1, language)


def _split_word(name: str, language: str) -> Iterator[_Word]:
    word = name.rstrip("+#")
    pieces = [piece for piece in word.split("_") if piece]
    if pieces != [name] and any(map(str.isalnum, word)):
        yield _Word(_fold(name, language), False)
    if word != name and len(word) == 1:  # C++ and C# are not about C
        return
    for piece in pieces:
        if not any(map(str.isalnum, piece)):
            continue
        yield _Word(_fold(piece, language), _is_word(piece))
        for part in _parts(piece):
            yield _Word(_fold(part, language), _is_word(part))


def _is_word(text: str) -> bool:
    return text.isalpha() or not re.search(r"[\d_+#]", text)


def _parts(word: str) -> list[str]:
    """The humps of a camel-case word, and runs of three or more letters or digits where the two meet."""
    if len(word) > _LONGEST_CACHED_TOKEN or _is_encoded(word):
        return []
    humps = _humps(word)
    parts = []
    for hump in humps:
        if len(humps) > 1:
            parts.append(hump)
        runs = re.findall(r"\d+|\D+", hump)
        if len(runs) > 1:
            parts += [run for run in runs if len(run) >= _SHORTEST_RUN]
    return parts


def _is_encoded(text: str) -> bool:
    """Whether it looks like a key, a hash or base64: between kinds of characters in more than each third place."""
    return len(text) >= _ENCODED_LENGTH and 3 * len(_CHANGE.findall(text)) > len(text)


def _humps(word: str) -> list[str]:
    """``getHTTPResponse`` -> get, HTTP, Response; but the s of ``URLs`` is a plural."""
    if word.islower() or word.isupper() or word[1:].islower():
        return [word]
    cuts = [0]
    for i in range(1, len(word)):
        if word[i].isupper():
            starts_word = word[i + 1 : i + 2].islower() and word[i + 1 :] != "s"
            if starts_word or not word[i - 1].isupper():
                cuts.append(i)
    return [word[start:end] for start, end in zip(cuts, [*cuts[1:], len(word)], strict=True)]


def _fold(text: str, language: str) -> str:
    """Full case folding (Unicode chapter 3.13), with the i of Turkish: its dotted capital folds to a plain i."""
    if language == "turkish":
        text = text.replace("I", "ı").replace("İ", "i")
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", text.casefold()).replace("i\u0307", "i")


def _terms(words: Iterator[str]) -> tuple[str, ...]:
    # Turkish stemming needs the dotless i. After it both are one letter, since the capital of both is typed as I.
    return tuple(word.replace("ı", "i") for word in words if 0 < len(word) <= MAX_TERM_LENGTH)
