"""RTF, read by striprtf; what it leaves out or should leave out is taken apart before."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import MissingExtraError, ParseError
from rag_pipeline.parsing.builder import TextBuilder
from rag_pipeline.parsing.reasons import first_line

MEDIA_TYPE = "application/rtf"

# The destinations and properties of groups are those of the RTF Specification 1.9.1.
_TOKEN = re.compile(
    r"\\[\\{}]|[{}]|\\(footnote|shptxt|header[lrf]?|footer[lrf]?|annotation|deleted|v|fonttbl)(?![A-Za-z0-9])"
)
_CODE_PAGE = re.compile(r"\\ansicpg\d+")
_APART = (("header", "headerl", "headerr", "headerf"), ("shptxt",), ("footnote", "annotation"))
_FOOTERS = ("footer", "footerl", "footerr", "footerf")


class _Group(NamedTuple):
    """A group between braces, and the word that says what it holds."""

    start: int
    end: int
    word: str


def parse_rtf(data: bytes) -> Parsed:
    """Parse an RTF document: its paragraphs, and rows of tables with ``|`` between cells.

    Headers come first; text boxes, footnotes, comments and footers follow the text. What was deleted or is hidden is left
    out.

    Raises:
        ParseError: it cannot be read, or holds no text.
    """
    source = data.decode("latin-1")
    groups = list(_groups(source))
    fonts = next((source[group.start : group.end] for group in groups if group.word == "fonttbl"), "")
    page = _CODE_PAGE.search(source)
    head = f"{{\\rtf1\\ansi{page[0] if page else ''}{fonts} "
    cut = sorted(group for group in groups if group.word != "fonttbl")
    builder = TextBuilder()
    headers, *below = _APART
    _write_groups(source, cut, headers, head, builder)
    for paragraph in re.split(r"\n\s*\n", _text(_without(source, 0, len(source), cut))):
        builder.block(paragraph.strip())
    for words in (*below, _FOOTERS):
        _write_groups(source, cut, words, head, builder)
    if source.rstrip("\x00 \r\n")[-1:] != "}":
        builder.loss("it was cut off: its last group is not closed")
    return builder.build(MEDIA_TYPE, None, {})


def _groups(source: str) -> list[_Group]:
    """The groups that are read apart or left out, in the order of their ends."""
    opened: list[tuple[int, str]] = []
    found: list[_Group] = []
    for token in _TOKEN.finditer(source):
        if token[0] == "{":
            opened.append((token.start(), ""))
        elif token[0] == "}":
            start, word = opened.pop() if opened else (0, "")
            if word:
                found.append(_Group(start, token.end(), word))
        elif token[1] and opened and not opened[-1][1]:
            opened[-1] = (opened[-1][0], token[1])
    return found


def _without(source: str, start: int, end: int, groups: Iterable[_Group]) -> str:
    """A part of the source without the groups within it, of which the first is the first of those given."""
    parts: list[str] = []
    for group in groups:
        if group.start >= end:
            break
        if group.start >= start:
            parts.append(source[start : group.start])
            start = group.end
    return "".join([*parts, source[start:end]])


def _write_groups(source: str, groups: list[_Group], words: tuple[str, ...], head: str, builder: TextBuilder) -> None:
    """Write groups of one kind, what several of them share only once."""
    seen: set[str] = set()
    for place, group in enumerate(groups):
        if group.word in words:
            inner = _without(source, group.start + 1, group.end - 1, islice(groups, place + 1, None))
            text = _text(head + inner.replace(f"\\{group.word}", "", 1).replace("\\*", "", 1) + "}").strip()
            if text not in seen:
                seen.add(text)
                builder.block(text)


def _text(source: str) -> str:
    try:
        from striprtf.striprtf import rtf_to_text
    except ImportError:
        raise MissingExtraError("striprtf", "pipeline", "Reading RTF") from None
    try:
        text: str = rtf_to_text(source, errors="replace")  # type: ignore[no-untyped-call]
    except Exception as error:  # striprtf raises what its parsing stumbles upon
        raise ParseError(f"damaged RTF: {first_line(error)}") from error
    return text
