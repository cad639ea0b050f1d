"""Token -> words: a name as a whole and its parts, in Unicode's folding of capitals."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple


class Word(NamedTuple):
    """Folded text, and whether the stemmer of the language may shorten it: names and numbers stay as they are."""

    text: str
    stem: bool


_LEVELS = tuple(map(re.compile, (r"[/\\:@&]+", r"\.", r"[-\u2010]", r"(?<=\+\+)(?=\w)")))
"""Where names come apart, the loosest bond first: paths, dots, hyphens, ``C++17``."""
_DOTS, _HYPHENS = 1, 2
_VERSION = re.compile(r"([vV]?)(\d+(?:\.\d+)+)")
_SHORTEST_RUN = 3
_LONGEST_TAKEN_APART = 256
_ENCODED_LENGTH = 12
_CHANGE = re.compile(r"[a-z](?=[A-Z\d])|[A-Z](?=[A-Z][a-z]|\d)|\d(?=[A-Za-z])")


def words_of(token: str, language: str) -> Iterator[Word]:
    """The words of one token: the whole, then its parts, from large to small."""
    if token.isalpha() and (token[1:].islower() or len(token) == 1):
        yield Word(_fold(token, language), True)
        return
    body = token.lstrip(".-\u2010")
    if body != token:
        yield Word(_fold(token, language), False)
    if "-" not in body and _is_encoded(body):
        yield Word(_fold(body, language), False)
        return
    yield from _split(body, 0, language)


def _split(name: str, level: int, language: str) -> Iterator[Word]:
    if level == len(_LEVELS):
        yield from _split_word(name, language)
        return
    parts = _LEVELS[level].split(name)
    if level == _HYPHENS and len(parts) == 2:
        joined = "".join(parts)
        yield Word(_fold(joined, language), _is_word(joined))
    elif len(parts) > 1:
        whole = _fold(name, language).replace("\u2010", "-")
        yield Word(whole, False)
        if level == _DOTS and (version := _VERSION.match(name)):
            if version[1]:
                yield Word(whole[1:], False)
            if version.end() < len(name):
                yield Word(version[2], False)  # 1.2.3 of 1.2.3-rc1
    for part in parts:
        yield from _split(part, level + 1, language)


def _split_word(name: str, language: str) -> Iterator[Word]:
    word = name.rstrip("+#")
    pieces = [piece for piece in word.split("_") if piece]
    if pieces != [name] and any(map(str.isalnum, word)):
        yield Word(_fold(name, language), False)
    if word != name and len(word) == 1:  # C++ and C# are not about C
        return
    for piece in pieces:
        if not any(map(str.isalnum, piece)):
            continue
        yield Word(_fold(piece, language), _is_word(piece))
        for part in _parts(piece):
            yield Word(_fold(part, language), _is_word(part))


def _is_word(text: str) -> bool:
    return text.isalpha() or not re.search(r"[\d_+#]", text)


def _parts(word: str) -> list[str]:
    """The humps of a camel-case word, and runs of three or more letters or digits where the two meet."""
    if len(word) > _LONGEST_TAKEN_APART or _is_encoded(word):
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
