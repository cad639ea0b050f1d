"""Files of a bucket on this machine's disk, by their SHA-256: downloaded once, mapped into memory by every process.

The folder is RAG_PIPELINE_CACHE, or a folder of the user's caches. It may be deleted at any time. It takes at most
RAG_PIPELINE_CACHE_BYTES; what was not used for longest goes first. A file that a process has mapped stays readable to it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path

from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.storage.object_path import ObjectPath

CACHE_VARIABLE = "RAG_PIPELINE_CACHE"
CACHE_BYTES_VARIABLE = "RAG_PIPELINE_CACHE_BYTES"
_DEFAULT_BYTES = 20 * 1024**3
_TEMPORARY_SECONDS = 24 * 3600.0


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
    """The copy of an object on this machine; downloaded when it is not there yet.

    Raises:
        FileNotFoundError: there is no such object.
        StoreError: its content has another hash.
    """
    folder = cache_folder()
    copy = folder / _file_name(sha256)
    try:
        os.utime(copy)
        return copy
    except FileNotFoundError:
        pass
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "w+b") as file:
            path.download(file)
            file.seek(0)
            digest = hashlib.sha256()
            while block := file.read(1 << 20):
                digest.update(block)
        if digest.hexdigest() != sha256:
            raise StoreError(f"{path}: expected SHA-256 {sha256}, got {digest.hexdigest()}; refresh the corpus with --full")
        return adopt_file(Path(temporary), sha256)
    finally:
        Path(temporary).unlink(missing_ok=True)


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
