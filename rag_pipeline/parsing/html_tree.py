"""An HTML page as flat lists in document order, so that nothing that reads it needs recursion."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Mapping
from itertools import accumulate
from typing import Any

_NEVER_TEXT = frozenset({
    "head", "script", "style", "template", "noscript", "noframes", "noembed", "iframe", "object", "applet", "embed",
    "svg", "canvas", "audio", "video", "map", "select", "option", "optgroup", "datalist", "button", "input",
    "progress", "meter", "annotation", "annotation-xml",
    "rt", "rp", "rtc",  # readings beside the characters of a word would part them
})  # fmt: skip
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_NO_ATTRIBUTES: Mapping[str, str | None] = {}


class HtmlTree:
    """The elements and texts of a page that may be shown, by their index in document order.

    ``names[i]`` is an element's tag, or ``""`` for a text, which is ``texts[i]`` (with entities resolved). The
    descendants of element ``i`` are ``i + 1 .. ends[i] - 1``; its parent is ``parents[i]`` (-1 for the root).
    """

    def __init__(self, root: Any) -> None:
        self.names: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[Mapping[str, str | None]] = []
        self.parents: list[int] = []
        self.ends: list[int] = []
        self._fill(root)
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for index, name in enumerate(self.names):
            if name:
                self._places[name].append(index)
        self._measure()

    def _fill(self, root: Any) -> None:
        opened: list[tuple[int, Any]] = []
        node = root
        while node is not None:
            tag = node.tag
            if tag == "-text":
                self._add("", node.text_content or "", _NO_ATTRIBUTES, opened)
            elif tag not in _NEVER_TEXT and tag[0] not in "-!" and not _hidden(attributes := node.attributes):
                index = self._add(tag, "", attributes, opened)
                child = node.child
                if child is not None:
                    opened.append((index, node))
                    node = child
                    continue
            following = node.next if opened else None
            while following is None and opened:
                index, parent = opened.pop()
                self.ends[index] = len(self.names)
                following = parent.next if opened else None
            node = following

    def _add(self, name: str, text: str, attributes: Mapping[str, str | None], opened: list[tuple[int, Any]]) -> int:
        index = len(self.names)
        self.names.append(name)
        self.texts.append(text)
        self.attributes.append(attributes)
        self.parents.append(opened[-1][0] if opened else -1)
        self.ends.append(index + 1)
        return index

    def _measure(self) -> None:
        """Sum up text and links before each index, so that a subtree's are a difference."""
        lengths = [len(text.strip()) for text in self.texts]
        links = [0] * len(self.names)
        linked = [0] * len(self.names)
        for index in self._places["a"]:
            if "href" in self.attributes[index]:
                links[index] = 1
                linked[index : self.ends[index]] = lengths[index : self.ends[index]]
        self._length_before = [0, *accumulate(lengths)]
        self._links_before = [0, *accumulate(links)]
        self._linked_before = [0, *accumulate(linked)]

    def length(self, index: int) -> int:
        """Characters of text below an element, without the white space around each piece."""
        return self._length_before[self.ends[index]] - self._length_before[index]

    def links(self, index: int) -> tuple[int, int]:
        """How many links there are below an element, and the characters of their texts."""
        end = self.ends[index]
        return (
            self._links_before[end] - self._links_before[index],
            self._linked_before[end] - self._linked_before[index],
        )

    def places(self, name: str) -> list[int]:
        """Every element of this name."""
        return self._places.get(name, [])

    def first_below(self, index: int, names: Collection[str]) -> int | None:
        """The first descendant with one of these names."""
        found: list[int] = []
        for name in names:
            places = self.places(name)
            position = bisect_left(places, index + 1)
            if position < len(places) and places[position] < self.ends[index]:
                found.append(places[position])
        return min(found, default=None)

    def attribute(self, index: int, name: str) -> str:
        """An attribute in lower case, ``""`` where it is not there."""
        return (self.attributes[index].get(name) or "").lower()


def _hidden(attributes: Mapping[str, str | None]) -> bool:
    if not attributes:
        return False
    if "hidden" in attributes and attributes["hidden"] != "until-found" and attributes.get("role") != "tabpanel":
        return True
    if attributes.get("aria-hidden") == "true":
        return True
    style = attributes.get("style")
    return bool(style and _HIDDEN_STYLE.search(style))
