"""Files that are either the old ones or the new ones, whatever happens in between."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from rag_pipeline.storage import ObjectPath, StorePath
from rag_pipeline.write_points import reached


def write_atomically(path: StorePath, data: bytes, what: str) -> None:
    """Replace a file so that a reader, or a machine that stops, sees the old bytes or the new ones and nothing else.

    Args:
        what: the name of the write points.
    """
    reached(f"{what}.write.before")
    if isinstance(path, ObjectPath):
        path.write_bytes(data)
        reached(f"{what}.rename.after")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        share(temporary)
        reached(f"{what}.rename.before")
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    reached(f"{what}.rename.after")


def _umask() -> int:
    """The process's umask: temporary files are made for their owner alone, the store's files are for every reader."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def share(path: str | Path) -> None:
    """Give a temporary file the permissions of an ordinary one, before it gets its name."""
    os.chmod(path, 0o666 & ~_umask())


def sync_folder(folder: Path) -> None:
    """Make a rename durable. Windows has no such call and needs none."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
