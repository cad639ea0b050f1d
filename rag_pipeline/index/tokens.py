"""Text -> tokens: names as they were written, and the characters of scripts without spaces. Whole batches at once."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_pipeline.index.ranges import Integers, concatenated_ranges


class Tokens(NamedTuple):
    """The tokens of several texts, one text after the other; text ``i`` has ``texts[bounds[i]:bounds[i + 1]]``."""

    texts: pa.LargeStringArray
    bounds: Integers


def tokens_of(texts: list[str]) -> Tokens:
    """Normalise (NFKC) and cut into tokens. What is between them is dropped."""
    codes, boundaries = _code_points(texts)
    starts, lengths = _tokens(_classes(codes))
    return Tokens(_substrings(codes, starts, lengths), np.searchsorted(starts, boundaries))


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
