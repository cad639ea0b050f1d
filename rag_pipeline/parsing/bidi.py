"""What stands on a line from left to right -> the order in which it is read, for Arabic, Hebrew and their neighbours."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

_RIGHT_TO_LEFT = frozenset({"R", "AL"})
_DIGITS = frozenset({"EN", "AN"})
_BRACKETS = ("()", "[]", "{}", "«»", "‹›", "<>")
_LETTERS = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_ONLY_LAST = "\u05da\u05dd\u05df\u05e3\u05e5\u0629\u0649"  # final forms of Hebrew, teh marbuta and alef maksura
_AT_RIGHT_END = re.compile(rf"\B[{_ONLY_LAST}]\b|\b\u0627\u0644\B")  # the article of Arabic begins a word
_AT_WRONG_END = re.compile(rf"\b[{_ONLY_LAST}]\B|\B\u0644\u0627\b")
_STOPS = frozenset(".,;:!?\u060c\u061b\u061f")
_LAM, _ALEFS = "\u0644", "\u0622\u0623\u0625\u0627"


def has_right_to_left(text: str) -> bool:
    """Whether a text has a letter of a script that is written from right to left."""
    return not text.isascii() and _LETTERS.search(text) is not None


def share_of_right_to_left(text: str) -> float:
    """Which share of a text's letters belong to such scripts; 0 where there are no letters."""
    letters = sum(map(str.isalpha, text))
    return sum(map(str.isalpha, _LETTERS.findall(text))) / letters if letters else 0.0


def is_turned_round(text: str) -> bool:
    """Whether words stand letter by letter the wrong way round, as letters show that only begin or only end words.

    Some programs draw such words from left to right, letter by letter: nobody can read the page, but its words are there.
    """
    return len(_AT_WRONG_END.findall(text)) > len(_AT_RIGHT_END.findall(text))


def is_mark(character: str) -> bool:
    """Whether a character stands above or below another one."""
    return unicodedata.category(character) == "Mn"


def ligature(letters: str) -> str:
    """The letters of one glyph as they are read.

    Args:
        letters: as PDFium gives them: turned round where they run from right to left. Lam-alef comes either way.
    """
    if not has_right_to_left(letters):
        return letters
    if letters[0] == _LAM and letters[1:2] and letters[1] in _ALEFS:
        return letters
    return letters[::-1]


def logical_order(glyphs: Sequence[str], right_to_left: bool) -> str:
    """A line as it is read: the bidirectional algorithm (Unicode Standard Annex 9) the other way round.

    Where several texts look the same, it is the one in which what is no right-to-left letter, such as words of English
    with their numbers, stays in order.

    Args:
        glyphs: letters with their marks, ligatures and spaces, from left to right.
        right_to_left: the direction of the paragraph.
    """
    kinds = [_kind(glyph) for glyph in glyphs]
    if right_to_left:
        # No line begins with a stop: the program took the paragraph for one from left to right.
        end = len(glyphs)
        while end > 1 and glyphs[end - 1] in _STOPS:
            end -= 1
        if kinds[end - 1 : end] and kinds[end - 1] not in _RIGHT_TO_LEFT:
            end = len(glyphs)
        return _reversed(glyphs[:end], kinds[:end], None) + "".join(glyphs[end:])
    parts: list[str] = []
    start = 0
    while start < len(glyphs):
        if kinds[start] not in _RIGHT_TO_LEFT:
            parts.append(glyphs[start])
            start += 1
            continue
        end = last = start
        while end < len(glyphs) and kinds[end] != "L":
            last = end if kinds[end] in _RIGHT_TO_LEFT else last
            end += 1
        stops = _trailing_stops(parts)
        del parts[len(parts) - stops :]
        parts.append(_reversed(glyphs[start : last + 1], kinds[start : last + 1], None))
        parts += glyphs[start - stops : start]
        start = last + 1
    return "".join(parts)


def _trailing_stops(parts: Sequence[str]) -> int:
    """How many stops stand at the end behind a space: the line ended with them, so they are left of what they follow."""
    stops = 0
    while stops < len(parts) and parts[-1 - stops] in _STOPS:
        stops += 1
    return stops if stops < len(parts) and parts[-1 - stops].isspace() else 0


def _kind(glyph: str) -> str:
    return unicodedata.bidirectional(glyph[0])


def _reversed(glyphs: Sequence[str], kinds: Sequence[str], before: str | None) -> str:
    """A line from its right end; ``before`` is the direction of the letter that is read before it."""
    parts: list[str] = []
    outside: list[int] = []  # places in ``parts`` of what is not within a stretch from left to right
    end = len(glyphs)
    while end > 0:
        start = end
        while start > 0 and kinds[start - 1] not in _RIGHT_TO_LEFT:
            start -= 1
        for is_forward, piece in _stretches(glyphs[start:end], kinds[start:end], before):
            if not is_forward:
                outside.append(len(parts))
            parts.append(piece)
        if start > 0:
            parts.append(glyphs[start - 1])
            before = kinds[start - 1]
        end = start - 1
    _turn_brackets(parts, outside)
    return "".join(parts)


def _stretches(glyphs: Sequence[str], kinds: Sequence[str], before: str | None) -> Iterator[tuple[bool, str]]:
    """What stands between right-to-left letters, from its right end: words and numbers whole, signs one by one."""
    strong = [place for place, kind in enumerate(kinds) if kind == "L" or kind in _DIGITS]
    if any(kind == "L" for kind in kinds):
        spans = [(strong[0], strong[-1] + 1)]
    else:
        spans = list(_numbers(kinds, joins_signs=before != "AL"))
    end = len(glyphs)
    for first, last in reversed(spans):
        yield from ((False, glyphs[place]) for place in range(end - 1, last - 1, -1))
        yield True, "".join(glyphs[first:last])
        end = first
    yield from ((False, glyphs[place]) for place in range(end - 1, -1, -1))


def _numbers(kinds: Sequence[str], joins_signs: bool) -> Iterator[tuple[int, int]]:
    """Where numbers stand: digits with a point, comma, colon or slash within (rules W4 and W5).

    Behind Arabic letters signs of percent, of currencies and between numbers stand apart from them (rule W2).
    """
    within = {"CS", "ES"} if joins_signs else {"CS"}
    place = end = 0
    while place < len(kinds):
        if kinds[place] not in _DIGITS:
            place += 1
            continue
        first = place
        while place < len(kinds) and (
            kinds[place] in _DIGITS or (kinds[place] in within and place + 1 < len(kinds) and kinds[place + 1] in _DIGITS)
        ):
            place += 1
        if joins_signs:
            while first > end and kinds[first - 1] == "ET":
                first -= 1
            while place < len(kinds) and kinds[place] == "ET":
                place += 1
        yield first, place
        end = place


def _turn_brackets(parts: list[str], outside: Sequence[int]) -> None:
    """Brackets as they are read. Programs write them as they look or as they are read, so their order has to tell."""
    for pair in _BRACKETS:
        opening, closing = pair[0], pair[1]
        places = [place for place in outside if parts[place] in (opening, closing)]
        if len(places) > 1 and parts[places[0]] == closing and parts[places[-1]] == opening:
            for place in places:
                parts[place] = opening if parts[place] == closing else closing
