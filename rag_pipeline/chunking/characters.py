"""What a character means to a chunker, as one table over code points."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

import numpy as np
import numpy.typing as npt

SPACE = 1
"""White space, as `str.isspace` has it."""
LINE_END = 2
"""Ends a line: LF, CR, form feed, NEL, line and paragraph separator."""
TERMINAL = 4
"""Ends a sentence."""
CLOSER = 8
"""May stand between the end of a sentence and the next one: closing brackets and quotation marks."""
UNSPACED = 16
"""Ends a sentence or a clause of a script that puts no space behind it."""
LOWER = 32
"""A small letter: a full stop before one ends an abbreviation rather than a sentence."""
EXTEND = 64
"""Belongs to the character before it: combining marks, joiners, variation selectors, skin tones, medial jamo."""
WORD_CHARACTER = 128
"""A letter or digit."""

ZERO_WIDTH_JOINER = 0x200D
REGIONAL_INDICATORS = (0x1F1E6, 0x1F1FF)

_TABLE_SIZE = 0x20000
_SUPPLEMENTARY_SPECIAL = 0xE0000  # tags and variation selectors: all of them extend
_EXTENDING = 0x0300

# Sentence_Terminal of the Unicode character database, in the scripts in wide use, and ellipses.
_TERMINALS = ".!?…‼⁇⁈⁉‽⸮։؟۔।॥။፧።。！？｡．︒︖︕។៕།᠃᠉꓿"
_UNSPACED_TERMINALS = "。！？｡︒︖︕"
_UNSPACED_CLAUSES = "，、；：､"
_QUOTES = "\"'*_`"  # straight quotes, and marks that close emphasis in plain-text markup
_LINE_ENDS = "\n\r\f\x85\u2028\u2029"
_OTHER_EXTENDING = (
    *range(0x1160, 0x1200),  # medial and final jamo
    *range(0xDC00, 0xE000),  # the second half of a surrogate pair that was never joined
    *range(0x1F3FB, 0x1F400),  # skin tones
    0x200C,
    ZERO_WIDTH_JOINER,
    0x0E33,
    0x0EB3,
    0xFF9E,
    0xFF9F,
)
_CATEGORIES = {
    LOWER: ("Ll",),
    WORD_CHARACTER: ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Nl", "No"),
    EXTEND: ("Mn", "Mc", "Me"),
    CLOSER: ("Pe", "Pf", "Pi"),
}


@lru_cache(maxsize=1)
def _table() -> npt.NDArray[np.uint8]:
    of_category = np.zeros(1 << 16, dtype=np.uint8)  # by the two letters of a category, read as one number
    for flag, categories in _CATEGORIES.items():
        of_category[np.frombuffer("".join(categories).encode(), dtype="<u2")] |= flag
    letters = "".join(map(unicodedata.category, map(chr, range(_TABLE_SIZE))))
    table = of_category.take(np.frombuffer(letters.encode(), dtype="<u2"))
    table[[code for code in range(0x3001) if chr(code).isspace()]] |= SPACE
    table[list(_OTHER_EXTENDING)] |= EXTEND
    for marks, flag in (
        (_LINE_ENDS, LINE_END),
        (_TERMINALS, TERMINAL),
        (_QUOTES, CLOSER),
        (_UNSPACED_TERMINALS + _UNSPACED_CLAUSES, UNSPACED),
    ):
        table[[ord(mark) for mark in marks]] |= flag
    return table


def code_points(text: str) -> npt.NDArray[np.uint32]:
    """The code points of a text, one a character, surrogates included."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def flags_of(codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
    """What each character means: the sum of the constants of this module. Ideographs beyond plane 1 mean nothing."""
    if codes.max(initial=0) >= _SUPPLEMENTARY_SPECIAL:
        codes = np.where(codes >= _SUPPLEMENTARY_SPECIAL, np.uint32(_EXTENDING), codes)
    return _table().take(codes, mode="clip")


def grapheme_starts(codes: npt.NDArray[np.uint32], flags: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Whether a character that a reader sees begins at each code point, close to Unicode's annex 29."""
    starts: npt.NDArray[np.bool_] = (flags & EXTEND) == 0
    starts[1:] &= codes[:-1] != ZERO_WIDTH_JOINER
    first, last = REGIONAL_INDICATORS
    regional = (codes >= first) & (codes <= last)
    if regional.any():
        # Flags are pairs of regional indicators: in a run of them, every second one begins a flag.
        position = np.arange(len(codes))
        place_in_run = position - np.maximum.accumulate(np.where(regional, -1, position))
        starts &= ~(regional & (place_in_run % 2 == 0))
    if len(starts):
        starts[0] = True
    return starts
