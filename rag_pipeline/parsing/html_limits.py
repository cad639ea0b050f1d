"""Keeps hostile HTML from costing the parser time or memory that grows with the square of the page."""

from __future__ import annotations

import re
from collections import Counter

_HARMLESS_TAGS = 2_000
_HARMLESS_LENGTH = 40_000
_MOST_ATTRIBUTES = 500
_DEEPEST = 512  # where Blink stops nesting, too
_DEEPEST_STRUCTURE = 2_000
_DEEPEST_FORMATTING = 16  # open formatting elements are opened anew in every paragraph that follows
_TAG = re.compile(r"<(?:(?P<comment>!--)|(?P<closing>/?)(?P<name>[a-zA-Z][^\s/>]*))")
_ATTRIBUTE = re.compile(r"[\s/]*[^\s/>][^\s/>=]*(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s>]*))?")
_OPAQUE = frozenset({"script", "style", "textarea", "title"})
# Elements without content, and those whose end tag may be left out.
_UNNESTED = frozenset({
    "area", "base", "br", "col", "embed", "frame", "hr", "img", "input", "keygen", "link", "meta", "param", "source",
    "track", "wbr",
    "p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option", "optgroup", "colgroup", "caption",
    "html", "head", "body", "rb", "rt", "rtc", "rp",
})  # fmt: skip
_FORMATTING = frozenset({
    "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u",
})  # fmt: skip
_STRUCTURE = frozenset({
    "article", "h1", "h2", "h3", "h4", "h5", "h6", "main", "ol", "pre", "section", "table", "ul",
})  # fmt: skip


def limit_markup(html: str) -> str:
    """The page without tags that nest its elements absurdly deep and without attributes by the hundred; no text is lost.

    Lexbor, like every parser after HTML's specification, looks through all open elements at many tags, repeats open
    formatting elements, and compares each attribute with those before it. 200,000 nested ``<div>`` or attributes cost
    minutes, some kilobytes of ``<font>`` and ``<p>`` gigabytes.
    """
    if len(html) <= _HARMLESS_LENGTH and html.count("<") <= _HARMLESS_TAGS:
        return html
    return _Limiter(html).limited()


class _Limiter:
    def __init__(self, html: str) -> None:
        self._html = html
        self._removed: list[tuple[int, int]] = []
        self._open: list[tuple[str, bool]] = []  # name of an element, and whether its tags are removed
        self._names: Counter[str] = Counter()
        self._depth = 0
        self._formatting = 0

    def limited(self) -> str:
        position = 0
        while (match := _TAG.search(self._html, position)) is not None:
            position = self._html.find("-->", match.end()) if match["comment"] else self._tag(match)
            if position < 0:
                break
        kept: list[str] = []
        kept_to = 0
        for start, end in self._removed:
            kept.append(self._html[kept_to:start])
            kept_to = end
        return "".join([*kept, self._html[kept_to:]])

    def _tag(self, match: re.Match[str]) -> int:
        """Judge one tag; returns where to go on, -1 where nothing can follow."""
        name = match["name"].lower()
        position = match.end()
        attributes = 0
        while (attribute := _ATTRIBUTE.match(self._html, position)) is not None:
            position = attribute.end()
            attributes += 1
        end = self._html.find(">", position)
        if end < 0:
            return -1
        if name not in _UNNESTED and (self._closes(name) if match["closing"] else self._opens(name)):
            self._removed.append((match.start(), end + 1))
        elif attributes > _MOST_ATTRIBUTES:
            self._removed.append((match.end(), end))
        if name in _OPAQUE and not match["closing"]:
            closing = re.compile(f"</{name}", re.IGNORECASE).search(self._html, end)
            return closing.start() if closing else -1
        return end + 1

    def _opens(self, name: str) -> bool:
        """Note an opening tag; returns whether it has to go."""
        deepest = _DEEPEST_STRUCTURE if name in _STRUCTURE else _DEEPEST
        remove = self._depth >= deepest or (name in _FORMATTING and self._formatting >= _DEEPEST_FORMATTING)
        self._open.append((name, remove))
        self._names[name] += 1
        self._depth += not remove
        self._formatting += not remove and name in _FORMATTING
        return remove

    def _closes(self, name: str) -> bool:
        """Note a closing tag, which closes what is open within its element, too; returns whether it has to go."""
        if not self._names[name]:
            return False
        while True:
            innermost, removed = self._open.pop()
            self._names[innermost] -= 1
            self._depth -= not removed
            self._formatting -= not removed and innermost in _FORMATTING
            if innermost == name:
                return removed
