"""What a character means is what Unicode says it means."""

from __future__ import annotations

import sys
import unicodedata

import numpy as np

from rag_pipeline.chunking.characters import LOWER, SPACE, WORD_CHARACTER, flags_of

CODES = np.arange(0x20000, dtype=np.uint32)


def test_letters_digits_and_spaces_are_those_of_unicode() -> None:
    flags = flags_of(CODES)
    characters = list(map(chr, CODES.tolist()))
    categories = [unicodedata.category(character) for character in characters]
    assert ((flags & SPACE) != 0).tolist() == [character.isspace() for character in characters]
    assert ((flags & LOWER) != 0).tolist() == [category == "Ll" for category in categories]
    letters_and_digits = {"Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Nl", "No"}
    assert ((flags & WORD_CHARACTER) != 0).tolist() == [category in letters_and_digits for category in categories]


def test_any_code_point_has_a_meaning() -> None:
    assert len(flags_of(np.array([0, sys.maxunicode, 0xD800], dtype=np.uint32))) == 3
