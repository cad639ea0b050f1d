"""Snapshots: immutable manifests, and the one pointer that says which of them is served.

Publishing tags the version of the vector table, writes the manifest, then swaps CURRENT. A crash in between leaves a
tag or a manifest that nothing points to; the next publication takes their number again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from rag_pipeline.contracts import Manifest, TableVersion
from rag_pipeline.errors import ConflictError, SnapshotNotFoundError, StoreError
from rag_pipeline.files import write_atomically
from rag_pipeline.index.current import CURRENT, Pointer, Swap, read_pointer, swapping
from rag_pipeline.index.store import VECTORS, CorpusStore
from rag_pipeline.lance import bucket_errors, tag_version
from rag_pipeline.storage import ObjectChangedError, ObjectPath, StorePath
from rag_pipeline.write_points import reached

__all__ = [
    "Pointer",
    "is_held",
    "manifest_file",
    "open_vector_table",
    "publish",
    "read_manifest",
    "read_pointer",
    "release",
    "rollback",
    "served_manifest",
    "snapshot_numbers",
    "tag_name",
]


def manifest_file(store: CorpusStore, snapshot: int) -> StorePath:
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
    root = store.root.parent
    folders = sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    return ", ".join(name for name in folders if (root / name / "snapshots" / CURRENT).is_file()) or "none"


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
    kept = tag_version(table, reference.tag) if reference.tag is not None else reference.version
    if kept != reference.version:
        # A table that was deleted and made anew counts from 1 again: without the tag the number means nothing.
        raise StoreError(f"{name}: {store.uri(reference.name)} has no such version any more; refresh the corpus")
    try:
        with bucket_errors(name):
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
    return [number for number in _manifest_numbers(store) if number <= pointer.newest and number not in pointer.skipped]


def _manifest_numbers(store: CorpusStore) -> list[int]:
    """The numbers of all manifests, also of those that were never published."""
    files = store.snapshots.iterdir() if store.snapshots.is_dir() else ()
    return sorted(int(path.stem) for path in files if path.suffix == ".json" and path.stem.isdigit())


def publish(store: CorpusStore, expected: Pointer | None, build: Callable[[int, TableVersion], Manifest]) -> Manifest:
    """Make the present state of the vector table and what ``build`` names a new snapshot, and serve it.

    Args:
        expected: the pointer as it was when the candidate was compared with what is served.
        build: makes the manifest from the new snapshot's number and the tagged version of the vector table.

    Raises:
        ConflictError: somebody else published or rolled back in between. Nothing was published.
    """
    with swapping(store, expected) as swap:
        table = store.table(VECTORS)
        if table is None:
            raise StoreError(f"corpus {store.corpus!r}: there is no vector table to publish")
        folder = store.snapshots
        if isinstance(folder, ObjectPath):
            return _publish_in_bucket(store, folder, table, expected, build, swap)
        number = 1 if expected is None else expected.newest + 1
        manifest = build(number, _tagged(table, tag_name(number)))
        write_atomically(manifest_file(store, number), _manifest_bytes(manifest), "manifest")
        swap(Pointer(snapshot=number, newest=number))
    return manifest


def _publish_in_bucket(
    store: CorpusStore,
    folder: ObjectPath,
    table: Any,
    expected: Pointer | None,
    build: Callable[[int, TableVersion], Manifest],
    swap: Swap,
) -> Manifest:
    """Publish where nothing keeps another host away. Number, manifest and tag belong to this publication alone.

    A manifest is written only where there is none, which takes its number; the tag has a name that no other has. Numbers
    that somebody took who then lost or died are skipped for good.
    """
    newest = 0 if expected is None else expected.newest
    taken = _manifest_numbers(store)
    number = max([newest, *taken]) + 1
    manifest = build(number, _tagged(table, f"{tag_name(number)}-{secrets.token_hex(4)}"))
    file = folder / manifest_file(store, number).name
    claimed = False
    try:
        reached("manifest.write.before")
        try:
            file.create(_manifest_bytes(manifest))
        except ObjectChangedError:
            raise ConflictError(
                f"corpus {store.corpus!r}: another process is publishing snapshot {number}; nothing was published, "
                f"refresh again"
            ) from None
        claimed = True
        reached("manifest.rename.after")
        before = () if expected is None else expected.skipped
        skipped = [taken_before for taken_before in taken if taken_before > newest or taken_before in before]
        swap(Pointer(snapshot=number, newest=number, skipped=tuple(skipped)))
    except ConflictError:
        if claimed:
            file.unlink()
        table.tags.delete(manifest.vector_table.tag)
        raise
    return manifest


def _tagged(table: Any, tag: str) -> TableVersion:
    """The newest version of a table, with a tag that keeps it."""
    version = TableVersion(name=VECTORS, version=table.version, tag=tag)
    reached("tag.create.before")
    if tag_version(table, tag) is not None:
        table.tags.delete(tag)
    table.tags.create(tag, version.version)
    reached("tag.create.after")
    return version


def _manifest_bytes(manifest: Manifest) -> bytes:
    return manifest.model_dump_json(indent=1).encode()


def rollback(store: CorpusStore, snapshot: int) -> Manifest:
    """Serve a kept snapshot, and hold it: refreshes publish nothing until :func:`release`.

    Raises:
        SnapshotNotFoundError: there is no such snapshot.
        ConflictError: somebody else published or rolled back at the same time.
    """
    manifest = read_manifest(store, snapshot)
    pointer = read_pointer(store)
    with swapping(store, pointer) as swap:
        newest = pointer.newest if pointer is not None else snapshot
        skipped = pointer.skipped if pointer is not None else ()
        swap(Pointer(snapshot=snapshot, newest=newest, held=True, skipped=skipped))
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
    with swapping(store, pointer) as swap:
        swap(pointer.model_copy(update={"held": False}))
    return True
