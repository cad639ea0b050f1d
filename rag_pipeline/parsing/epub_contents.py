"""The table of contents of an EPUB book: headings for chapters that have none of their own."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from rag_pipeline.errors import ParseError
from rag_pipeline.parsing.archives import Archive

_NCX_TYPE = "application/x-dtbncx+xml"
_OWN_HEADING = re.compile(r"<(?:\w+:)?h[1-6]\b", re.IGNORECASE)
_BODY = re.compile(r"<(?:\w+:)?body\b[^>]*>", re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")
_LOOKED_AT = 4_000
"""Characters of a chapter in which its title is looked for, which publishers set as a paragraph of a larger font."""


class Entry(NamedTuple):
    """What the contents call a chapter. ``level`` counts from 1."""

    level: int
    title: str


def contents_of(archive: Archive, package: Element, folder: str) -> dict[str, Entry]:
    """The entries of the contents by the name of the chapter that they lead to, the first of each.

    A book whose contents are missing or damaged has none: they repeat what its chapters say.
    """
    items = {item.get("id"): item for item in elements(package, "item")}
    spine = next(elements(package, "spine"), None)
    of_version_3 = next((item for item in items.values() if "nav" in (item.get("properties") or "").split()), None)
    of_version_2 = items.get(spine.get("toc")) if spine is not None else None
    if of_version_2 is None:
        of_version_2 = next((item for item in items.values() if item.get("media-type") == _NCX_TYPE), None)
    for item, read in ((of_version_3, _navigation), (of_version_2, _points)):
        if item is None:
            continue
        name = member(folder, item.get("href") or "")
        try:
            entries = list(read(archive.xml(name)))
        except ParseError:
            continue
        if entries:
            found: dict[str, Entry] = {}
            for address, entry in entries:
                found.setdefault(member(posixpath.dirname(name), address), entry)
            return found
    return {}


def wants_heading(page: str) -> bool:
    """Whether a chapter has text, and no heading of its own."""
    return _OWN_HEADING.search(page) is None and bool(_first_letters(page))


def begins_with(page: str, title: str) -> bool:
    """Whether the first words of a chapter are its title."""
    return _first_letters(page).startswith("".join(title.split()).casefold())


def _first_letters(page: str) -> str:
    body = _BODY.search(page)
    start = body.end() if body is not None else 0
    return "".join(unescape(_TAG.sub("", page[start : start + _LOOKED_AT])).split()).casefold()


def elements(root: Element, name: str) -> Iterator[Element]:
    """All elements of a name, whatever their namespace."""
    return (element for element in root.iter() if _name(element) == name)


def text_of(element: Element) -> str:
    """The text of an element in one line."""
    return " ".join("".join(element.itertext()).split())


def member(folder: str, address: str) -> str:
    """The name of the member that an address leads to, without the place within it."""
    return posixpath.normpath(posixpath.join(folder, unquote(address.partition("#")[0])))


def _navigation(page: Element) -> Iterator[tuple[str, Entry]]:
    """Entries of a navigation document of EPUB 3: lists within lists."""
    for nav in elements(page, "nav"):
        kinds = [value for key, value in nav.attrib.items() if key.rpartition("}")[2] == "type"]
        if not kinds or "toc" in kinds[0].split():
            yield from _list_entries(nav, 0)
            return


def _list_entries(element: Element, level: int) -> Iterator[tuple[str, Entry]]:
    for child in element:
        name = _name(child)
        if name == "a" and child.get("href") and text_of(child):
            yield child.get("href") or "", Entry(level, text_of(child))
        else:
            yield from _list_entries(child, level + (name == "ol"))


def _points(ncx: Element, level: int = 0) -> Iterator[tuple[str, Entry]]:
    """Entries of a table of contents of EPUB 2: points within points."""
    for child in ncx:
        name = _name(child)
        if name == "navPoint":
            label, content = next(elements(child, "navLabel"), None), next(elements(child, "content"), None)
            if label is not None and content is not None and text_of(label):
                yield content.get("src") or "", Entry(level + 1, text_of(label))
        if name in ("navMap", "navPoint"):
            yield from _points(child, level + (name == "navPoint"))


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
