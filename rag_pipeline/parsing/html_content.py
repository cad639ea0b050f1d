"""Which part of an HTML page is its content. Recall comes first: in doubt, text stays."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator
from itertools import accumulate
from typing import NamedTuple

from rag_pipeline.parsing.html_tree import HtmlTree

_BOILERPLATE = frozenset({"nav", "aside", "header", "footer", "form", "search"})
_BOILERPLATE_ROLES = frozenset({"navigation", "search", "banner", "contentinfo", "complementary"})
_ALWAYS_DROPPED = frozenset({"nav", "form", "search"})  # the others are a part of the content when they lie within it
_ALWAYS_DROPPED_ROLES = frozenset({"navigation", "search"})
_CONTENT = frozenset({"main", "article", "section"})
_CONTAINERS = frozenset({"div", "section", "ul", "ol", "table", "td", "p", "dl", "center", "menu", "dir"})

_FRAMES = frozenset({"header", "footer", "aside"})

# Thresholds of a comparison on 60 documents in two page templates; in pages of bare divs a quarter of the side bars stays.
_LEAST_LINKS = 6
_LEAST_LINKED_FRACTION = 0.75
_LONGEST_LINK = 45
_LEAST_MAIN_FRACTION = 0.2


class Content(NamedTuple):
    """The element that holds the content, and the elements in it that are none; no two of those are nested."""

    root: int
    dropped: frozenset[int]

    def elements(self, tree: HtmlTree, name: str) -> Iterator[int]:
        """The elements of this name that belong to the content."""
        starts = sorted(self.dropped)
        for index in tree.places(name):
            outer = bisect_right(starts, index) - 1
            if self.root < index < tree.ends[self.root] and (outer < 0 or tree.ends[starts[outer]] <= index):
                yield index


def everything(tree: HtmlTree) -> Content:
    """The whole body."""
    return Content(_body(tree), frozenset())


def find_content(tree: HtmlTree) -> Content:
    """Choose the content of a page.

    Navigation, forms, and headers, footers and asides of the page go, unless they hold most of the text. ``main``, or a
    single ``article``, is preferred where it holds a fifth of what is left. Blocks that are mostly short links go, too,
    unless that drops more than it keeps: anywhere where there is no ``main``, else only in its header, footer and asides.
    """
    body = _body(tree)
    dropped = _boilerplate(tree, body)
    kept = _KeptLengths(tree, dropped)
    if kept.length(body) == 0:
        dropped = set()
        kept = _KeptLengths(tree, dropped)
    main = _main(tree, kept)
    if main is not None and kept.length(main) > max(0, _LEAST_MAIN_FRACTION * kept.length(body)):
        root, blocks = main, _link_blocks(tree, main, dropped, only_in=_FRAMES)
    else:
        root, blocks = body, _link_blocks(tree, body, dropped, only_in=None)
    if 2 * sum(map(tree.length, blocks)) <= kept.length(root):
        dropped |= blocks
    return Content(root, frozenset(dropped))


def _body(tree: HtmlTree) -> int:
    return next(iter(tree.places("body")), 0)


def _boilerplate(tree: HtmlTree, body: int) -> set[int]:
    whole = tree.length(body)
    dropped: set[int] = set()
    content_end = 0
    index = body + 1
    while index < tree.ends[body]:
        name = tree.names[index]
        role = tree.attribute(index, "role") if name else ""
        inside = index < content_end
        if (name in _BOILERPLATE or role in _BOILERPLATE_ROLES) and not (
            (inside and name not in _ALWAYS_DROPPED and role not in _ALWAYS_DROPPED_ROLES)
            or _holds_most(tree, index, whole)
            or _holds_only_title(tree, index)
        ):
            dropped.add(index)
            index = tree.ends[index]
            continue
        if name in _CONTENT or role == "main":
            content_end = max(content_end, tree.ends[index])
        index += 1
    return dropped


def _holds_most(tree: HtmlTree, index: int, whole: int) -> bool:
    """Whether an element is rather a wrapper of the page; navigation may well outweigh a short text."""
    return tree.names[index] != "nav" and 2 * tree.length(index) > whole


def _holds_only_title(tree: HtmlTree, index: int) -> bool:
    """Whether the page's only level-1 heading stands in this header."""
    titles = tree.places("h1")
    return tree.names[index] == "header" and len(titles) == 1 and index < titles[0] < tree.ends[index]


class _KeptLengths:
    """Characters of text below elements, without what is dropped."""

    def __init__(self, tree: HtmlTree, dropped: Collection[int]) -> None:
        lengths = [len(text.strip()) for text in tree.texts]
        for index in dropped:
            lengths[index : tree.ends[index]] = [0] * (tree.ends[index] - index)
        self._ends = tree.ends
        self._before = [0, *accumulate(lengths)]

    def length(self, index: int) -> int:
        return self._before[self._ends[index]] - self._before[index]


def _main(tree: HtmlTree, kept: _KeptLengths) -> int | None:
    mains = [index for index, name in enumerate(tree.names) if name == "main" or tree.attribute(index, "role") == "main"]
    if mains:
        return max(mains, key=kept.length)
    outermost: list[int] = []
    for index in tree.places("article"):
        if not outermost or index >= tree.ends[outermost[-1]]:
            outermost.append(index)
    return outermost[0] if len(outermost) == 1 else None


def _link_blocks(tree: HtmlTree, root: int, dropped: set[int], only_in: frozenset[str] | None) -> set[int]:
    """Blocks that are mostly short links, anywhere or only in elements of these names."""
    blocks: set[int] = set()
    frame_end = tree.ends[root] if only_in is None else 0
    index = root + 1
    while index < tree.ends[root]:
        name = tree.names[index]
        if only_in is not None and name in only_in:
            frame_end = max(frame_end, tree.ends[index])
        if index in dropped or (index < frame_end and name in _CONTAINERS | _FRAMES and _is_mostly_links(tree, index)):
            if index not in dropped:
                blocks.add(index)
            index = tree.ends[index]
        else:
            index += 1
    return blocks


def _is_mostly_links(tree: HtmlTree, index: int) -> bool:
    links, linked = tree.links(index)
    return (
        links >= _LEAST_LINKS
        and _LEAST_LINKED_FRACTION * tree.length(index) < linked < _LONGEST_LINK * links
        and tree.first_below(index, {"h1"}) is None
    )
