"""Files of a bucket on this machine's disk, by their SHA-256: downloaded once, mapped into memory by every process.

The folder is RAG_PIPELINE_CACHE, or a folder of the user's caches. It may be deleted at any time. It takes at most
RAG_PIPELINE_CACHE_BYTES; what was not used for longest goes first. A file that a process has mapped stays readable to it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.storage.object_path import ObjectPath

CACHE_VARIABLE = "RAG_PIPELINE_CACHE"
CACHE_BYTES_VARIABLE = "RAG_PIPELINE_CACHE_BYTES"
_DEFAULT_BYTES = 20 * 1024**3
_TEMPORARY_SECONDS = 24 * 3600.0
_TRIES = 3
_sound: set[tuple[str, int, int]] = set()
"""Copies, by path, inode and size, that this process has compared with their hash."""


def cache_folder() -> Path:
    """Where the files lie; made when it is not there.

    Raises:
        ConfigError: it cannot be made.
    """
    if os.environ.get(CACHE_VARIABLE):
        folder = Path(os.environ[CACHE_VARIABLE]).expanduser().resolve()
    elif sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "rag_pipeline" / "cache"
    elif sys.platform == "darwin":
        folder = Path.home() / "Library" / "Caches" / "rag_pipeline"
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rag_pipeline"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{CACHE_VARIABLE}: {folder} cannot be made: {error.strerror}; set it to another folder") from None
    return folder


def cached_file(path: ObjectPath, sha256: str) -> Path:
    """The copy of an object on this machine; downloaded when it is not there yet, or is not what it was.

    A copy is compared with its hash once a process: disks fail, and others may write to the folder.

    Raises:
        FileNotFoundError: there is no such object.
        StoreError: its content has another hash.
        ConfigError: the cache cannot be written.
    """
    copy = cache_folder() / _file_name(sha256)
    if _is_sound(copy, sha256):
        return copy
    for left in reversed(range(_TRIES)):
        try:
            return _downloaded(path, sha256)
        except _CacheVanishedError:
            if not left:
                break
    raise ConfigError(f"{CACHE_VARIABLE}: {copy.parent} is deleted again and again; set it to another folder")


def _is_sound(copy: Path, sha256: str) -> bool:
    try:
        status = copy.stat()
        known = (str(copy), status.st_ino, status.st_size)
        if known not in _sound:
            with copy.open("rb") as file:
                if _sha256_of(file) != sha256:
                    return False
            _sound.add(known)
        with contextlib.suppress(PermissionError):  # a cache that another user fills
            os.utime(copy)
    except OSError:
        return False
    return True


def _downloaded(path: ObjectPath, sha256: str) -> Path:
    with writing_to_cache() as folder:
        try:
            handle, temporary = tempfile.mkstemp(dir=folder, prefix=".", suffix=".tmp")
        except FileNotFoundError:
            raise _CacheVanishedError from None
        try:
            with os.fdopen(handle, "w+b") as file:
                path.download(file)
                file.seek(0)
                found = _sha256_of(file)
            if found != sha256:
                raise StoreError(f"{path}: expected SHA-256 {sha256}, got {found}; refresh the corpus with --full")
            try:
                return adopt_file(Path(temporary), sha256)
            except FileNotFoundError:
                raise _CacheVanishedError from None
        finally:
            Path(temporary).unlink(missing_ok=True)


class _CacheVanishedError(Exception):
    """Somebody deleted the folder meanwhile. Never leaves this module."""


@contextlib.contextmanager
def writing_to_cache() -> Iterator[Path]:
    """The cache's folder, for writing into it.

    Raises:
        ConfigError: it cannot be written: there is no room, or no permission.
    """
    folder = cache_folder()
    try:
        yield folder
    except FileNotFoundError:
        raise
    except OSError as error:
        remedy = f"make room, or set {CACHE_VARIABLE} to another folder"
        raise ConfigError(f"{CACHE_VARIABLE}: {folder} cannot be written: {error.strerror or error}; {remedy}") from None


def _sha256_of(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


def adopt_file(temporary: Path, sha256: str) -> Path:
    """Take a whole file in the cache's folder over into the cache, and make room for it."""
    folder = cache_folder()
    copy = folder / _file_name(sha256)
    os.replace(temporary, copy)
    _make_room(folder, copy)
    return copy


def _file_name(sha256: str) -> str:
    return f"{sha256}.cached"


def _make_room(folder: Path, newest: Path) -> None:
    limit = _limit()
    found = []
    for entry in os.scandir(folder):
        try:
            status = entry.stat()
        except FileNotFoundError:
            continue
        if entry.name.endswith(".cached"):
            found.append((status.st_mtime, status.st_size, entry.path))
        elif entry.name.endswith(".tmp") and status.st_mtime < newest.stat().st_mtime - _TEMPORARY_SECONDS:
            Path(entry.path).unlink(missing_ok=True)
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= limit or path == str(newest):
            break
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except PermissionError:  # Windows keeps a file that is mapped
            continue
        total -= size


def _limit() -> int:
    given = os.environ.get(CACHE_BYTES_VARIABLE)
    if not given:
        return _DEFAULT_BYTES
    if not given.isdecimal():
        raise ConfigError(f"{CACHE_BYTES_VARIABLE}={given}: expected a number of bytes")
    return int(given)
