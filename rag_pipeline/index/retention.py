"""Which snapshots are kept, and making room: dropped snapshots, files that nothing names, tables grown ragged.

Everything here may be interrupted at any point and started again. A manifest goes first, so that nobody opens what is
being taken apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from rag_pipeline.contracts import Contract, Manifest
from rag_pipeline.errors import StoreError
from rag_pipeline.index.snapshot import Pointer, manifest_file, read_manifest, read_pointer, snapshot_numbers, tag_name
from rag_pipeline.index.store import (
    CHUNKS,
    CONTEXT_LINES,
    DOCUMENTS,
    EVALUATIONS,
    ITEMS,
    QUERY_VECTORS,
    VECTORS,
    CorpusStore,
)
from rag_pipeline.index.working_segments import read_working_segments
from rag_pipeline.lance import delete_keys, read, tag_versions, versions
from rag_pipeline.storage import StorePath
from rag_pipeline.write_points import reached

_WRITERS_OWN = timedelta(milliseconds=1)
"""Items, documents and chunks are read by the refresh that holds the lock alone: old versions of them are not kept."""

_CLOCK_MARGIN = timedelta(seconds=2)
"""Between our reading of the clock and LanceDB's."""

_LONGEST_PUBLICATION = timedelta(hours=1)
"""Between the writing of a segment or manifest in a bucket and the swap of CURRENT, with room."""

_FRAGMENTS = 24
"""Compaction writes a table anew, and kept snapshots keep the old copy: so it waits until this many pieces have come
together, which is more refreshes than snapshots are kept by default."""
_DELETED_FRACTION = 0.25


class Maintenance(Contract):
    """What was made room from."""

    snapshots_dropped: tuple[int, ...]
    files_deleted: int
    tables_compacted: tuple[str, ...]


def maintain(store: CorpusStore, keep_snapshots: int, keep_days: int | None) -> Maintenance:
    """Drop old snapshots and what only they named; compact tables whose statistics ask for it."""
    dropped = drop_snapshots(store, keep_snapshots, keep_days)
    files = delete_spare_files(store)
    drop_evaluations(store)
    tables = (ITEMS, DOCUMENTS, CONTEXT_LINES, CHUNKS, VECTORS, EVALUATIONS, QUERY_VECTORS)
    compacted = tuple(name for name in tables if _compact(store.table(name)))
    return Maintenance(snapshots_dropped=tuple(dropped), files_deleted=files, tables_compacted=compacted)


def drop_snapshots(store: CorpusStore, keep_snapshots: int, keep_days: int | None) -> list[int]:
    """Drop the snapshots that are neither served, nor among the newest, nor young enough. Returns their numbers."""
    pointer = read_pointer(store)
    if pointer is None:
        return []
    numbers = snapshot_numbers(store)
    newest = set(numbers[-keep_snapshots:]) | {pointer.snapshot}
    limit = datetime.now(timezone.utc) - timedelta(days=keep_days) if keep_days is not None else None
    dropped = []
    for number in numbers:
        if number in newest or (limit is not None and read_manifest(store, number).created_at >= limit):
            continue
        reached("manifest.delete.before")
        manifest_file(store, number).unlink()
        reached("manifest.delete.after")
        dropped.append(number)
    delete_spare_tags(store)
    return dropped


def drop_evaluations(store: CorpusStore, candidate: str | None = None) -> None:
    """Drop what was measured of contents that no kept snapshot has.

    Args:
        candidate: the hash of the content that is at work; its rows stay.
    """
    table = store.table(EVALUATIONS)
    if table is None:
        return
    try:
        manifests = [read_manifest(store, number) for number in snapshot_numbers(store)]
    except StoreError:
        # What a damaged manifest was of cannot be known; `doctor` reports it.
        return
    kept = {manifest.hash for manifest in manifests} | {candidate}
    kept |= {manifest.evaluation.content for manifest in manifests if manifest.evaluation is not None}
    spare = [name for name in read(table, ["content"])["content"].unique().to_pylist() if name not in kept]
    delete_keys(table, "content", spare)


def delete_spare_tags(store: CorpusStore) -> list[str]:
    """Delete the tags of the vector table that belong to no kept snapshot."""
    table = store.table(VECTORS)
    if table is None:
        return []
    spare = spare_tags(store, table)
    for tag in spare:
        reached("tag.delete.before")
        table.tags.delete(tag)
        reached("tag.delete.after")
    return spare


def spare_tags(store: CorpusStore, table: Any) -> list[str]:
    """In a bucket a tag's name goes on after the number, and several may have one number: their manifest names one."""
    by_number: defaultdict[str, list[str]] = defaultdict(list)
    for tag in tag_versions(table):
        if tag.startswith("snapshot-"):
            by_number["-".join(tag.split("-")[:2])].append(tag)
    spare: list[str] = []
    kept = {tag_name(number): number for number in snapshot_numbers(store)}
    for name, tags in by_number.items():
        if name not in kept:
            spare += tags
        elif len(tags) > 1:
            named = read_manifest(store, kept[name]).vector_table.tag
            spare += [tag for tag in tags if tag != named]
    return sorted(spare)


def spare_files(store: CorpusStore) -> list[StorePath]:
    """Segment files that neither a kept snapshot nor the next one names, manifests that were never published, and
    temporary files of writers that died. In a bucket only what is old enough to belong to no host that is at work."""
    try:
        manifests: Sequence[Manifest] = [read_manifest(store, number) for number in snapshot_numbers(store)]
    except StoreError:
        # What a damaged manifest names cannot be known, so that nothing counts as spare; `doctor` reports it.
        return []
    working = read_working_segments(store.bm25)
    segments = [segment for manifest in manifests for segment in manifest.bm25] + list(working.segments if working else ())
    named = {segment.file for segment in segments} | {segment.deletions_file for segment in segments}
    pointer = read_pointer(store)
    spare: list[Any] = []
    for folder in (store.bm25, store.snapshots, store.root):
        for path in folder.iterdir() if folder.is_dir() else ():
            unpublished = path.suffix == ".json" and path.stem.isdigit() and not _is_published(pointer, int(path.stem))
            unnamed = folder == store.bm25 and path.suffix == ".arrow" and path.name not in named
            if path.is_file() and (path.name.endswith(".tmp") or unnamed or unpublished) and _is_left(path):
                spare.append(path)
    return sorted(spare)


def _is_published(pointer: Pointer | None, number: int) -> bool:
    return pointer is not None and number <= pointer.newest and number not in pointer.skipped


def _is_left(path: StorePath) -> bool:
    """Whether nobody is at work on a file that nothing names yet. On a disk the corpus's lock says so."""
    if isinstance(path, Path):
        return True
    return path.modified_at is None or datetime.now(timezone.utc) - path.modified_at > _LONGEST_PUBLICATION


def delete_spare_files(store: CorpusStore) -> int:
    """Delete the spare files. The caller holds the corpus's lock. Returns how many.

    Readers that have them open go on reading: a mapped file lives until it is closed.
    """
    spare = spare_files(store)
    for path in spare:
        reached("spare_file.delete.before")
        path.unlink()
    return len(spare)


def _compact(table: Any | None) -> bool:
    """Compact a table in many pieces or with many deleted rows, and clean up versions that no tag keeps.

    LanceDB refuses to clean up when a tagged version lies in the window, so that the window ends before the oldest tag.
    """
    if table is None:
        return False
    newest = versions(table)[-1]["metadata"]
    deleted, rows = int(newest.get("total_deletion_file_rows", 0)), int(newest.get("total_data_file_rows", 0))
    ragged = table.stats()["fragment_stats"]["num_fragments"] >= _FRAGMENTS or deleted > _DELETED_FRACTION * max(rows, 1)
    if not ragged:
        return False
    reached(f"{table.name}.compact.before")
    table.optimize(cleanup_older_than=_cleanup_window(table))
    reached(f"{table.name}.compact.after")
    return True


def _cleanup_window(table: Any) -> timedelta:
    tagged = set(tag_versions(table).values())
    # LanceDB's time stamps are naive, in local time.
    ages = [datetime.now() - version["timestamp"] for version in versions(table) if version["version"] in tagged]
    needed: list[timedelta] = [age + _CLOCK_MARGIN for age in ages]
    return max(needed, default=_WRITERS_OWN)
