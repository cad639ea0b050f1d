"""Where items lie: one small protocol, and the folders and files of this machine behind it; `buckets` has the others.

Local folders are walked with the operating system's own calls. obstore's LocalStore (0.12) fails a whole listing at the
first name that holds a control character or is not UTF-8, and at the first link that points to a folder above it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from rag_pipeline.config import CorpusConfig
from rag_pipeline.contracts import SourceItem
from rag_pipeline.errors import SourceError, SourceReadError
from rag_pipeline.storage import is_address

_LOGGER = logging.getLogger(__name__)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class OpenItem(NamedTuple):
    """A file to read, and the item as it was when it was opened: it may have changed since it was listed."""

    file: BinaryIO
    item: SourceItem


class Store(Protocol):
    """A place that lists items and opens one of them."""

    @property
    def one_item(self) -> bool:
        """Whether the source is one named item, so that patterns have nothing to choose."""
        ...

    def items(self) -> Iterator[SourceItem]:
        """Every item, in no particular order.

        Raises:
            SourceError: a part of the store cannot be listed; what it holds must not pass for removed.
        """
        ...

    def open(self, item: SourceItem) -> OpenItem:
        """Open an item for reading from its start; it can be sought in.

        Raises:
            SourceReadError: it vanished or cannot be read.
        """
        ...

    @property
    def reads_ahead(self) -> bool:
        """Whether items are worth fetching in parallel before they are asked for."""
        ...


def open_store(corpus: CorpusConfig) -> Store:
    """The store that ``source.path`` names.

    Raises:
        SourceError: there is no such folder or file, or it is of a kind that cannot be read.
        ConfigError: there are no credentials for a bucket.
        StoreUnreachableError: a bucket cannot be reached.
    """
    where = f"{corpus.file}: source.path"
    if is_address(corpus.source.path):
        from rag_pipeline.sources.buckets import open_bucket

        return open_bucket(corpus, where)
    path = corpus.folder / corpus.source.path
    try:
        path = corpus.source_path
        if path.is_dir():
            return LocalFolder(path, hidden=corpus.source.hidden, where=where)
        if path.is_file():
            return LocalFile(path)
        exists = path.exists()
    except (OSError, ValueError) as error:
        raise SourceError(f"{where}: {path} cannot be reached: {_reason(error)}") from None
    if exists:
        raise SourceError(f"{where}: {path} is neither a folder nor a file")
    raise SourceError(f"{where}: {path} does not exist; expected a folder or a file, relative to {corpus.folder}")


class LocalFile:
    """A source that is one file; its item's path is the file's name."""

    one_item = True
    reads_ahead = False

    def __init__(self, file: Path) -> None:
        self._file = file

    def items(self) -> Iterator[SourceItem]:
        try:
            yield _item(_shown_name(self._file.name), self._file.stat())
        except FileNotFoundError:
            return

    def open(self, item: SourceItem) -> OpenItem:
        return OpenItem(_open(self._file, item.path), item)


class LocalFolder:
    """A folder with everything below it.

    Links are followed as long as they stay below the root, a link to a folder only when the walk does not come to that
    folder otherwise: so a loop ends at once and nothing is listed twice because of a link to a folder. Links that lead
    out of the root are left out with a warning, broken ones without.
    """

    one_item = False
    reads_ahead = False

    def __init__(self, root: Path, *, hidden: bool, where: str) -> None:
        self._root = os.path.realpath(root)
        self._hidden = hidden
        self._where = where

    def items(self) -> Iterator[SourceItem]:
        visited: set[tuple[int, int]] = set()
        linked: list[tuple[str, str]] = []
        yield from self._walk("", self._root, visited, linked)
        while linked:
            waiting = sorted(linked)
            linked.clear()
            for relative, folder in waiting:
                yield from self._walk(relative, folder, visited, linked)

    def open(self, item: SourceItem) -> OpenItem:
        path = item.path
        segments = path.split("/")
        if ".." in segments or os.path.isabs(path):
            raise SourceReadError(f"{path}: leads out of the source's folder")
        file = os.path.join(self._root, *segments)
        if "\\x" in path and not os.path.lexists(file):
            file = self._find_shown(segments) or file
        return OpenItem(_open(file, path), item)

    def _walk(
        self, relative: str, folder: str, visited: set[tuple[int, int]], linked: list[tuple[str, str]]
    ) -> Iterator[SourceItem]:
        pending = [(relative, folder)]
        while pending:
            relative, folder = pending.pop()
            for entry in self._entries(folder, visited):
                if entry.name.startswith(".") and not self._hidden:
                    continue
                path = f"{relative}/{_shown_name(entry.name)}" if relative else _shown_name(entry.name)
                try:
                    is_link = entry.is_symlink()
                    if is_link and not self._leads_inside(entry.path, path):
                        continue
                    if entry.is_file():
                        yield _item(path, os.stat(entry.path))
                    elif entry.is_dir():
                        (linked if is_link else pending).append((path, entry.path))
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise SourceError(f"{self._where}: {entry.path} cannot be listed: {_reason(error)}") from None

    def _entries(self, folder: str, visited: set[tuple[int, int]]) -> list[os.DirEntry[str]]:
        try:
            status = os.stat(folder)
            if (status.st_dev, status.st_ino) in visited:
                return []
            visited.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as entries:
                return list(entries)
        except FileNotFoundError:
            if folder != self._root:
                return []
            raise SourceError(f"{self._where}: {folder} vanished while it was listed") from None
        except OSError as error:
            raise SourceError(f"{self._where}: {folder} cannot be listed: {_reason(error)}") from None

    def _leads_inside(self, link: str, path: str) -> bool:
        """Whether a link ends at something that exists below the root."""
        target = os.path.realpath(link)
        if not os.path.exists(target):
            return False
        if target == self._root or target.startswith(os.path.join(self._root, "")):
            return True
        _LOGGER.warning("%s: %r is left out: it is a link that leads out of the source's folder", self._where, path)
        return False

    def _find_shown(self, segments: list[str]) -> str | None:
        """The file whose name is not UTF-8 and is therefore listed in an escaped form."""
        folder = self._root
        for segment in segments:
            try:
                found = next((name for name in os.listdir(folder) if _shown_name(name) == segment), None)
            except OSError:
                return None
            if found is None:
                return None
            folder = os.path.join(folder, found)
        return folder


def _open(file: str | Path, path: str) -> BinaryIO:
    try:
        return open(file, "rb")
    except FileNotFoundError:
        raise SourceReadError(f"{path}: vanished before it was read") from None
    except (OSError, ValueError) as error:
        raise SourceReadError(f"{path}: cannot be read: {_reason(error)}") from None


def _item(path: str, status: os.stat_result) -> SourceItem:
    """An item as a listing shows it.

    The change time in the etag cannot be set back, so that a file which was rewritten with its old size and its old
    modification time still differs.
    """
    etag = f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_ctime_ns:x}-{status.st_size:x}"
    try:
        modified_at = _EPOCH + timedelta(microseconds=status.st_mtime_ns // 1000)
    except OverflowError:
        modified_at = _EPOCH
    return SourceItem(path=path, size=status.st_size, modified_at=modified_at, etag=etag)


def _shown_name(name: str) -> str:
    r"""The name as Unicode text: bytes that are not UTF-8 are written as ``\xff``."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return os.fsencode(name).decode("utf-8", "backslashreplace")
    return name


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
