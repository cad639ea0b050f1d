"""CURRENT: the one pointer that says which snapshot is served, and how it is swapped.

On a disk a lock keeps others away while it is swapped. In a bucket a conditional write does: it succeeds only while the
object still has the etag that was read, so that of two hosts one loses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from pydantic import ValidationError

from rag_pipeline.contracts import Contract
from rag_pipeline.errors import ConflictError, StoreError
from rag_pipeline.files import write_atomically
from rag_pipeline.index.store import CorpusStore
from rag_pipeline.storage import ObjectChangedError, ObjectPath
from rag_pipeline.write_points import reached

CURRENT = "CURRENT"
_SWAP_SECONDS = 30.0


class Pointer(Contract):
    """The content of CURRENT: the snapshot that is served, the newest one ever published, and whether a rollback holds.

    ``skipped`` are numbers up to the newest that were taken, in a bucket, by a host that lost or died.
    """

    snapshot: int
    newest: int
    held: bool = False
    skipped: tuple[int, ...] = ()

    def json_bytes(self) -> bytes:
        return self.model_dump_json(exclude=None if self.skipped else {"skipped"}).encode()


Swap: TypeAlias = Callable[[Pointer], None]


def read_pointer(store: CorpusStore) -> Pointer | None:
    """Which snapshot is served, or None when none was published yet.

    Raises:
        StoreError: CURRENT is damaged.
    """
    try:
        return _parsed(store, (store.snapshots / CURRENT).read_bytes())
    except FileNotFoundError:
        return None


@contextmanager
def swapping(store: CorpusStore, expected: Pointer | None) -> Iterator[Swap]:
    """Compare and swap: CURRENT is what the caller took it to be, and what is yielded swaps it.

    Raises:
        ConflictError: it is not, or somebody else swapped it first. Nothing was swapped.
    """
    if isinstance(store.snapshots, ObjectPath):
        yield _swap_in_bucket(store, store.snapshots / CURRENT, expected)
        return
    from filelock import FileLock, Timeout

    store.snapshots.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(store.snapshots / f"{CURRENT}.lock", timeout=_SWAP_SECONDS):
            _check(store, expected, read_pointer(store))
            yield lambda pointer: write_atomically(store.snapshots / CURRENT, pointer.json_bytes(), "current")
    except Timeout:
        raise ConflictError(
            f"corpus {store.corpus!r}: another process has been publishing for {_SWAP_SECONDS:.0f} s"
        ) from None


def _swap_in_bucket(store: CorpusStore, file: ObjectPath, expected: Pointer | None) -> Swap:
    try:
        data, version = file.read_version()
        found = _parsed(store, data)
    except FileNotFoundError:
        found, version = None, None
    _check(store, expected, found)

    def swap(pointer: Pointer) -> None:
        reached("current.write.before")
        try:
            if version is None:
                file.create(pointer.json_bytes())
            else:
                file.replace(pointer.json_bytes(), version)
        except ObjectChangedError:
            raise _conflict(store, expected, read_pointer(store)) from None
        reached("current.rename.after")

    return swap


def _check(store: CorpusStore, expected: Pointer | None, found: Pointer | None) -> None:
    if found != expected:
        raise _conflict(store, expected, found)


def _conflict(store: CorpusStore, expected: Pointer | None, found: Pointer | None) -> ConflictError:
    return ConflictError(
        f"corpus {store.corpus!r}: another process published or rolled back meanwhile "
        f"(expected {expected}, found {found}); nothing was published, refresh again"
    )


def _parsed(store: CorpusStore, data: bytes) -> Pointer:
    try:
        return Pointer.model_validate_json(data)
    except ValidationError:
        remedy = 'write {"snapshot": N, "newest": N} with the N of the newest manifest beside it'
        raise StoreError(f"{store.snapshots / CURRENT}: damaged; {remedy}") from None
