"""Arrow files that are written once, named by their hash, and mapped into memory by readers."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa

from rag_pipeline.errors import StoreError
from rag_pipeline.files import share, sync_folder
from rag_pipeline.storage import StorePath, adopt_file, cached_file, writing_to_cache
from rag_pipeline.write_points import reached

REMEDY = "refresh the corpus with --full to build the index anew"

_TRIES = 3
_DESCRIPTION = b"rag_pipeline.bm25"


class WrittenFile(NamedTuple):
    name: str
    sha256: str


def write_columns(folder: StorePath, kind: str, columns: dict[str, pa.Array], description: dict[str, Any]) -> WrittenFile:
    """Write columns of any lengths as the one row of an Arrow IPC file, each column as one list.

    The file appears under its name only when it is whole and on disk. Equal contents are the same file.

    Args:
        folder: made when it is not there.
        kind: the file's name begins with it.
        description: JSON values that are kept beside the columns.
    """
    lists = [pa.LargeListArray.from_arrays(pa.array([0, len(column)], pa.int64()), column) for column in columns.values()]
    metadata = {_DESCRIPTION: json.dumps(description, sort_keys=True).encode()}
    schema = pa.schema([(name, array.type) for name, array in zip(columns, lists, strict=True)], metadata)
    folder.mkdir(parents=True, exist_ok=True)
    reached(f"{kind}.write.before")
    with nullcontext(folder) if isinstance(folder, Path) else writing_to_cache() as beside:
        handle, temporary = tempfile.mkstemp(dir=beside, prefix=f".{kind}-", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                hashing = _HashingFile(file)
                with pa.ipc.new_file(pa.PythonFile(hashing, "w"), schema) as writer:
                    writer.write_batch(pa.record_batch(lists, schema=schema))
                file.flush()
                os.fsync(file.fileno())
            sha256 = hashing.digest.hexdigest()
            name = f"{kind}-{sha256[:32]}.arrow"
            share(temporary)
            reached(f"{kind}.rename.before")
            if isinstance(folder, Path):
                os.replace(temporary, folder / name)
            else:
                (folder / name).upload(Path(temporary))
                adopt_file(Path(temporary), sha256)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    if isinstance(folder, Path):
        sync_folder(folder)
    reached(f"{kind}.rename.after")
    return WrittenFile(name, sha256)


def read_columns(path: StorePath, sha256: str | None) -> tuple[dict[str, pa.Array], dict[str, Any]]:
    """The columns and the description of a file that `write_columns` made. The columns are mapped, not read.

    Args:
        sha256: of the file; a file in a bucket is mapped from this machine's copy of that hash.

    Raises:
        StoreError: the file is missing, cut short or something else.
    """
    try:
        file = pa.ipc.open_file(_mapped(path, sha256))
        batch = file.get_batch(0)
        description = json.loads(file.schema.metadata[_DESCRIPTION])
    except FileNotFoundError:
        raise StoreError(f"{path}: this BM25 file is missing; {REMEDY}") from None
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path}: not a BM25 file ({str(error).splitlines()[0]}); {REMEDY}") from None
    return {name: batch.column(name).values for name in batch.schema.names}, description


def _mapped(path: StorePath, sha256: str | None) -> pa.MemoryMappedFile:
    if isinstance(path, Path) or sha256 is None:
        return pa.memory_map(str(path))
    for _ in range(_TRIES):
        copy = cached_file(path, sha256)
        try:
            return pa.memory_map(str(copy))
        except FileNotFoundError:  # another process made room, or somebody deleted the cache
            continue
    return pa.memory_map(str(cached_file(path, sha256)))


def verify_file(path: StorePath, sha256: str) -> None:
    """Read a file and compare it with its SHA-256.

    Raises:
        StoreError: it is missing or has changed.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(2**20):
                digest.update(block)
    except OSError as error:
        raise StoreError(f"{path}: this BM25 file cannot be read ({error.strerror or 'it is missing'}); {REMEDY}") from None
    if digest.hexdigest() != sha256:
        raise StoreError(f"{path}: expected SHA-256 {sha256}, got {digest.hexdigest()}; {REMEDY}")


class _HashingFile:
    """Passes on what is written, and hashes it."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()
