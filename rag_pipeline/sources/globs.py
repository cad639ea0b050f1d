"""Patterns of ``source.include`` and ``source.exclude``."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence


def glob_matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """A function that tells whether a path matches one of the patterns.

    Patterns and paths are relative to the source's root, with ``/`` between folders, and case counts. ``*`` and ``?``
    stay within one name, ``[abc]`` and ``[!abc]`` are one character of a name, ``**/`` is any number of folders (also
    none), ``folder/**`` and ``folder/`` are everything below a folder. Composed and decomposed Unicode are the same
    name, since file systems hand out either.
    """
    if not patterns:
        return lambda path: False
    alternatives = (_expression(unicodedata.normalize("NFC", pattern)) for pattern in patterns)
    expression = re.compile("|".join(f"(?:{alternative})" for alternative in alternatives))

    def matches(path: str) -> bool:
        name = path if path.isascii() else unicodedata.normalize("NFC", path)
        return expression.fullmatch(name) is not None

    return matches


def _expression(pattern: str) -> str:
    names = pattern.split("/")
    if names[-1] == "":
        names[-1] = "**"
    segments: list[str] = []
    for name in names:
        if name not in ("", ".") and not (name == "**" and segments[-1:] == ["**"]):
            segments.append(name)
    expression = ""
    for segment in segments[:-1]:
        expression += r"(?:[^/]*/)*" if segment == "**" else _segment_expression(segment) + "/"
    return expression + (r"(?s:.+)" if segments[-1] == "**" else _segment_expression(segments[-1]))


def _segment_expression(segment: str) -> str:
    expression = ""
    position = 0
    while position < len(segment):
        character = segment[position]
        position += 1
        if character == "*":
            if not expression.endswith("[^/]*"):
                expression += "[^/]*"
        elif character == "?":
            expression += "[^/]"
        elif character == "[" and (end := _class_end(segment, position)) is not None:
            expression += _class_expression(segment[position:end])
            position = end + 1
        else:
            expression += re.escape(character)
    return expression


def _class_end(segment: str, start: int) -> int | None:
    """Where the ``]`` of a character class stands; one that comes first in the class is a member of it."""
    first_member = start + 1 if segment[start : start + 1] in ("!", "^") else start
    end = segment.find("]", first_member + 1)
    return None if end < 0 else end


def _class_expression(members: str) -> str:
    negated = members[0] in ("!", "^")
    members = members[1:] if negated else members
    alternatives: list[str] = []
    position = 0
    while position < len(members):
        if members[position + 1 : position + 2] == "-" and position + 2 < len(members):
            low, high = members[position], members[position + 2]
            if low <= high:
                alternatives.append(f"{re.escape(low)}-{re.escape(high)}")
            position += 3
        else:
            alternatives.append(re.escape(members[position]))
            position += 1
    if not alternatives:
        return "[^/]" if negated else "(?!)"
    return f"(?!/)[{'^' if negated else ''}{''.join(alternatives)}]"
