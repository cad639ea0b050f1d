"""EPUB books: the chapters of the spine in their order, each read as HTML."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing.archives import Archive
from rag_pipeline.parsing.builder import TextBuilder
from rag_pipeline.parsing.encoding import decode
from rag_pipeline.parsing.html import as_html, write_html
from rag_pipeline.parsing.reasons import ONLY_PICTURES

MEDIA_TYPE = "application/epub+zip"

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_FONT_MANGLING = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_PICTURES = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".svg")
_CHAPTER_TYPES = frozenset({"application/xhtml+xml", "text/html", "text/x-oeb1-document"})


def parse_epub(data: bytes) -> Parsed:
    """Parse a book. Title, and the metadata ``author`` and ``lang``, are those of its package.

    Raises:
        ParseError: it is damaged, encrypted, or has no text.
    """
    archive = Archive(data)
    package_path = _package_path(archive)
    package = archive.xml(package_path)
    folder = posixpath.dirname(package_path)
    encrypted = _encrypted(archive)
    builder = TextBuilder()
    for name in _spine(package, folder):
        if name in encrypted:
            raise ParseError("protected by DRM: its chapters are encrypted")
        if name not in archive:
            builder.loss(f"chapter {name} is missing from it")
            continue
        try:
            page = decode(archive.read(name), html=True)
        except ParseError as error:
            builder.loss(f"chapter {name} cannot be read: {error}")
            continue
        write_html(as_html(page), builder)
    if not builder.blocks and not builder.losses and any(name.lower().endswith(_PICTURES) for name in archive.names):
        raise ParseError(ONLY_PICTURES)
    metadata = {"author": ", ".join(_texts(package, "creator")), "lang": next(_texts(package, "language"), "")}
    title = next(_texts(package, "title"), None)
    return builder.build(MEDIA_TYPE, title, {name: value for name, value in metadata.items() if value})


def _package_path(archive: Archive) -> str:
    if _CONTAINER in archive:
        for element in _elements(archive.xml(_CONTAINER), "rootfile"):
            path = unquote(element.get("full-path") or "")
            if path in archive:
                return path
    package = next((name for name in archive.names if name.endswith(".opf")), None)
    if package is None:
        raise ParseError("damaged: the book has no package document")
    return package


def _spine(package: Element, folder: str) -> Iterator[str]:
    """Names of the chapters in reading order; all of the manifest where there is no spine."""
    manifest = {
        item.get("id"): posixpath.normpath(posixpath.join(folder, _path(item.get("href") or "")))
        for item in _elements(package, "item")
        if (item.get("media-type") or "").lower() in _CHAPTER_TYPES
        or (item.get("href") or "").lower().endswith((".xhtml", ".html", ".htm"))
    }
    wanted = [item.get("idref") for item in _elements(package, "itemref")] or list(manifest)
    seen: set[str] = set()
    for name in wanted:
        chapter = manifest.get(name)
        if chapter is not None and chapter not in seen:
            seen.add(chapter)
            yield chapter


def _path(address: str) -> str:
    """The path that an address names, without the place within it."""
    return unquote(address.partition("#")[0])


def _encrypted(archive: Archive) -> set[str]:
    """Members that are encrypted, fonts that are only mangled aside."""
    if _ENCRYPTION not in archive:
        return set()
    names: set[str] = set()
    for entry in _elements(archive.xml(_ENCRYPTION), "EncryptedData"):
        methods = [method.get("Algorithm") for method in _elements(entry, "EncryptionMethod")]
        if not any(method in _FONT_MANGLING for method in methods):
            names |= {unquote(reference.get("URI") or "") for reference in _elements(entry, "CipherReference")}
    return names


def _elements(root: Element, name: str) -> Iterator[Element]:
    return (element for element in root.iter() if isinstance(element.tag, str) and element.tag.rpartition("}")[2] == name)


def _texts(package: Element, name: str) -> Iterator[str]:
    texts = (" ".join("".join(element.itertext()).split()) for element in _elements(package, name))
    return (text for text in texts if text)
