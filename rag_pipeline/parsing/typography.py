"""Letters as a typesetter left them -> letters as a reader searches them."""

from __future__ import annotations

import re
from collections.abc import Collection

_LIGATURES = {
    0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st",
}  # fmt: skip
_INVISIBLE = dict.fromkeys((0x00AD, 0x2060, 0xFEFF))
_HYPHENS = {0x2011: "-"}  # does not break a line, and is a hyphen otherwise
_REPLACED = str.maketrans({**_LIGATURES, **_INVISIBLE, **_HYPHENS})
# Presentation forms of Arabic and Hebrew stand for the letters themselves; a few PDF writers use nothing else.
_PRESENTATION_FORMS = re.compile("[\ufb1d-\ufb4f\ufb50-\ufdfb\ufe70-\ufefc]+")
_BROKEN_WORD = re.compile(r"([^\W\d_]+)[-\u2010\u00ad\u00ac]\n[ \t]*([^\W\d_]+)")
_WORD = re.compile(r"[^\W\d_]+(?:[-\u2010][^\W\d_]+)*")


def plain_letters(text: str) -> str:
    """The text with ligatures as their letters, and without soft hyphens and word joiners.

    A space of width zero stays: it parts words in Khmer, Thai and their neighbours.
    """
    if text.isascii():
        return text
    text = text.translate(_REPLACED)
    if _PRESENTATION_FORMS.search(text):
        from unicodedata import normalize

        text = _PRESENTATION_FORMS.sub(lambda found: normalize("NFKC", found[0]), text)
    return text


def words_of(text: str) -> set[str]:
    """The words of a text in small letters, compounds with their hyphens, but none that a line end divides."""
    return {word.casefold() for word in _WORD.findall(_BROKEN_WORD.sub(" ", text))}


def join_broken_words(text: str, words: Collection[str]) -> str:
    """Join words that were divided at the end of a line.

    The hyphen goes, unless the document writes the compound with a hyphen elsewhere, or both its parts as words, and
    never without. What continues with a capital is a compound of names and keeps it.

    Args:
        words: the words of the document (``words_of``).
    """

    def joined(found: re.Match[str]) -> str:
        first, second = found[1], found[2]
        whole, compound = f"{first}{second}".casefold(), f"{first}-{second}".casefold()
        if not second[0].islower() and second.upper() != second.lower():
            return f"{first}-{second}"
        is_compound = compound in words or (first.casefold() in words and second.casefold() in words)
        return f"{first}-{second}" if is_compound and whole not in words else f"{first}{second}"

    return _BROKEN_WORD.sub(joined, text)
