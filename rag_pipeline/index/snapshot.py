"""Snapshots: immutable manifests, and the one pointer that says which of them is served.

Publishing tags the version of the vector table, writes the manifest, then swaps CURRENT. A crash in between leaves a
tag or a manifest that nothing points to; the next publication takes their number again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rag_pipeline.contracts import Contract, Manifest, TableVersion
from rag_pipeline.errors import ConflictError, SnapshotNotFoundError, StoreError
from rag_pipeline.files import write_atomically
from rag_pipeline.index.store import VECTORS, CorpusStore
from rag_pipeline.write_points import reached

_CURRENT = "CURRENT"
_SWAP_SECONDS = 30.0


class Pointer(Contract):
    """The content of CURRENT: the snapshot that is served, the newest one ever published, and whether a rollback holds."""

    snapshot: int
    newest: int
    held: bool = False


def read_pointer(store: CorpusStore) -> Pointer | None:
    """Which snapshot is served, or None when none was published yet.

    Raises:
        StoreError: CURRENT is damaged.
    """
    file = store.snapshots / _CURRENT
    try:
        return Pointer.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError:
        remedy = 'write {"snapshot": N, "newest": N} with the N of the newest manifest beside it'
        raise StoreError(f"{file}: damaged; {remedy}") from None


def manifest_file(store: CorpusStore, snapshot: int) -> Path:
    return store.snapshots / f"{snapshot:06d}.json"


def tag_name(snapshot: int) -> str:
    """The tag that keeps a snapshot's version of the vector table from being cleaned up."""
    return f"snapshot-{snapshot:06d}"


def read_manifest(store: CorpusStore, snapshot: int | None = None) -> Manifest:
    """The manifest of one snapshot, or of the one that is served.

    Raises:
        SnapshotNotFoundError: there is no such snapshot; the message says which there are.
        StoreError: the manifest is damaged.
    """
    pointer = read_pointer(store)
    if pointer is None:
        raise SnapshotNotFoundError(
            f"corpus {store.corpus!r} has no snapshot under {store.root.parent} (there: {_corpora(store)}); "
            f"if the name and the folder are right, `rag-pipeline refresh {store.corpus}` makes one"
        )
    number = pointer.snapshot if snapshot is None else snapshot
    file = manifest_file(store, number)
    try:
        if number > pointer.newest:
            raise FileNotFoundError
        return Manifest.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        kept = ", ".join(str(n) for n in snapshot_numbers(store)) or "none"
        raise SnapshotNotFoundError(f"corpus {store.corpus!r} has no snapshot {number} (kept: {kept})") from None
    except ValidationError as error:
        raise StoreError(f"{file}: damaged: {error.error_count()} fields do not fit the manifest's format") from None


def _corpora(store: CorpusStore) -> str:
    """The corpora that have something published under the data root."""
    return ", ".join(sorted(path.parent.parent.name for path in store.root.parent.glob(f"*/snapshots/{_CURRENT}"))) or "none"


def served_manifest(store: CorpusStore) -> Manifest | None:
    """The manifest of the snapshot that is served, or None when none was published yet, or it cannot be opened any more.

    A refresh publishes a new one then, whatever the old one held.
    """
    if read_pointer(store) is None:
        return None
    try:
        manifest = read_manifest(store)
        open_vector_table(store, manifest)
    except StoreError:
        return None
    return manifest


def open_vector_table(store: CorpusStore, manifest: Manifest) -> Any:
    """A handle on the vector table at the version that a manifest names; a candidate's has no tag yet.

    Raises:
        StoreError: the table, its tag or the version is not there any more.
    """
    reference = manifest.vector_table
    name = f"corpus {manifest.corpus!r}, snapshot {manifest.snapshot}"
    table = store.table(reference.name)
    if table is None:
        raise StoreError(f"{name}: {store.uri(reference.name)} is not there; restore it, or refresh the corpus")
    tag = table.tags.list().get(reference.tag) if reference.tag is not None else {"version": reference.version}
    if tag is None or tag["version"] != reference.version:
        # A table that was deleted and made anew counts from 1 again: without the tag the number means nothing.
        raise StoreError(f"{name}: {store.uri(reference.name)} has no such version any more; refresh the corpus")
    try:
        table.checkout(reference.version)
    except (ValueError, RuntimeError):
        gone = f"version {reference.version} of {store.uri(reference.name)} is gone"
        raise StoreError(f"{name}: {gone}; refresh the corpus") from None
    return table


def snapshot_numbers(store: CorpusStore) -> list[int]:
    """The numbers of the published snapshots that are kept, oldest first."""
    pointer = read_pointer(store)
    if pointer is None:
        return []
    numbers = (int(path.stem) for path in store.snapshots.glob("[0-9]*.json") if path.stem.isdigit())
    return sorted(number for number in numbers if number <= pointer.newest)


def publish(store: CorpusStore, expected: Pointer | None, build: Callable[[int, TableVersion], Manifest]) -> Manifest:
    """Make the present state of the vector table and what ``build`` names a new snapshot, and serve it.

    Args:
        expected: the pointer as it was when the candidate was compared with what is served.
        build: makes the manifest from the new snapshot's number and the tagged version of the vector table.

    Raises:
        ConflictError: somebody else published or rolled back in between. Nothing was published.
    """
    with _swapping(store, expected):
        number = 1 if expected is None else expected.newest + 1
        table = store.table(VECTORS)
        if table is None:
            raise StoreError(f"corpus {store.corpus!r}: there is no vector table to publish")
        tag = tag_name(number)
        version = TableVersion(name=VECTORS, version=table.version, tag=tag)
        reached("tag.create.before")
        if tag in table.tags.list():
            table.tags.delete(tag)
        table.tags.create(tag, version.version)
        reached("tag.create.after")
        manifest = build(number, version)
        write_atomically(manifest_file(store, number), manifest.model_dump_json(indent=1).encode(), "manifest")
        _write_pointer(store, Pointer(snapshot=number, newest=number))
    return manifest


def rollback(store: CorpusStore, snapshot: int) -> Manifest:
    """Serve a kept snapshot, and hold it: refreshes publish nothing until :func:`release`.

    Raises:
        SnapshotNotFoundError: there is no such snapshot.
        ConflictError: somebody else published or rolled back at the same time.
    """
    manifest = read_manifest(store, snapshot)
    pointer = read_pointer(store)
    with _swapping(store, pointer):
        newest = pointer.newest if pointer is not None else snapshot
        _write_pointer(store, Pointer(snapshot=snapshot, newest=newest, held=True))
    return manifest


def is_held(store: CorpusStore) -> bool:
    """Whether a rollback keeps refreshes from publishing."""
    pointer = read_pointer(store)
    return pointer is not None and pointer.held


def release(store: CorpusStore) -> bool:
    """Let refreshes publish again. The snapshot that is served stays until one does.

    Returns:
        Whether a rollback was held.
    """
    pointer = read_pointer(store)
    if pointer is None or not pointer.held:
        return False
    with _swapping(store, pointer):
        _write_pointer(store, pointer.model_copy(update={"held": False}))
    return True


@contextmanager
def _swapping(store: CorpusStore, expected: Pointer | None) -> Iterator[None]:
    """Compare and swap: nobody else changes CURRENT inside, and it is what the caller took it to be."""
    from filelock import FileLock, Timeout

    store.snapshots.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(store.snapshots / "CURRENT.lock", timeout=_SWAP_SECONDS):
            found = read_pointer(store)
            if found != expected:
                raise ConflictError(
                    f"corpus {store.corpus!r}: another process published or rolled back meanwhile "
                    f"(expected {expected}, found {found}); nothing was published, refresh again"
                )
            yield
    except Timeout:
        raise ConflictError(
            f"corpus {store.corpus!r}: another process has been publishing for {_SWAP_SECONDS:.0f} s"
        ) from None


def _write_pointer(store: CorpusStore, pointer: Pointer) -> None:
    write_atomically(store.snapshots / _CURRENT, pointer.model_dump_json().encode(), "current")
