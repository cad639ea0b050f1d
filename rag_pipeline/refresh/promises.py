"""Checks of what every refresh promises: nothing lost, nothing mixed, nothing done without need, nothing half published."""

from __future__ import annotations

import pyarrow.compute as pc

from rag_pipeline.errors import StoreError
from rag_pipeline.index.bm25 import verify_segment
from rag_pipeline.index.snapshot import open_vector_table, read_manifest, served_manifest
from rag_pipeline.index.store import CHUNKS, DOCUMENTS, ITEMS, VECTORS
from rag_pipeline.index.vector_table import identity_of
from rag_pipeline.lance import read
from rag_pipeline.refresh.checks import CheckOutcome
from rag_pipeline.refresh.context import RefreshContext
from rag_pipeline.refresh.document_rows import FAILED, STALE
from rag_pipeline.wording import counted

_SHOWN = 5
_WORK = (("chunks", "added"), ("embeddings", "embedded"), ("vector_table", "rows_written"), ("bm25_index", "added"))


def check_nothing_lost(context: RefreshContext) -> CheckOutcome:
    """A file that is served and that the source still lists is among the documents, if need be in its last good version."""
    documents, items = context.store.table(DOCUMENTS), context.store.table(ITEMS)
    if documents is None or items is None:
        return CheckOutcome(False, "There is no documents table; refresh the corpus.")
    columns = read(documents, ["document_id", "status"], f"status != '{FAILED}'")
    stale = sum(status == STALE for status in columns["status"].to_pylist())
    served = served_manifest(context.store)
    gone = served.content.documents.keys() - set(columns["document_id"].to_pylist()) if served is not None else set()
    lost: list[str] = []
    if gone and context.corpus.source.format == "files":
        lost = sorted(gone & set(read(items, ["path"])["path"].to_pylist()))
    numbers = {"lost": len(lost), "kept_in_an_earlier_version": stale, "no_longer_in_the_source": len(gone) - len(lost)}
    if lost:
        shown = ", ".join(lost[:_SHOWN]) + (", …" if len(lost) > _SHOWN else "")
        description = (
            f"In the source and served, but no longer in the documents table: {counted(len(lost), 'document')}: {shown}. "
            "Refresh with --full, and report it: this must not happen."
        )
        return CheckOutcome(False, description, numbers)
    return CheckOutcome(
        True,
        f"Nothing is lost; {counted(stale, 'document')} kept in an earlier version, {len(gone)} gone from the source.",
        numbers,
    )


def check_every_text_embedded(context: RefreshContext) -> CheckOutcome:
    """The embedding cache has a vector for every text of the chunks."""
    chunks = context.store.table(CHUNKS)
    if chunks is None:
        return CheckOutcome(False, "There is no chunks table; refresh the corpus.")
    hashes = pc.unique(read(chunks, ["content_hash"])["content_hash"])
    missing = len(context.embedding_cache(context.embedder).missing(hashes))
    remedy = "" if not missing else " Refresh again: what is there is not embedded twice."
    return CheckOutcome(
        not missing, f"{len(hashes)} texts, {missing} without a vector.{remedy}", {"texts": len(hashes), "missing": missing}
    )


def check_one_identity(context: RefreshContext) -> CheckOutcome:
    """The vector table was made by the embedder that the snapshot will name."""
    table = context.store.table(VECTORS)
    if table is None:
        return CheckOutcome(False, "There is no vector table; refresh the corpus.")
    found, expected = identity_of(table), context.embedder.identity
    if found == expected:
        return CheckOutcome(True, f"All vectors are of {expected}.")
    return CheckOutcome(
        False, f"The vectors are of {found}, the embedder is {expected}. Refresh again; if it comes back, with --full."
    )


def check_cost_of_change(context: RefreshContext) -> CheckOutcome:
    """When no document changed and nothing was published, no stage did any work."""
    documents, snapshot = context.figures.get("documents"), context.figures.get("snapshot")
    if documents is None or snapshot is None:
        return CheckOutcome(True, "Not judged: stages of this refresh ran on their own.")
    done = {f"{stage}_{name}": context.figures.get(stage, {}).get(name) or 0 for stage, name in _WORK}
    changed = any(documents[name] for name in ("added", "changed", "removed"))
    if changed or snapshot["published"] or snapshot["held"] or context.full:
        return CheckOutcome(True, "There was something to do.", done)
    if not any(done.values()):
        return CheckOutcome(True, "Nothing changed, and nothing was done.", done)
    work = ", ".join(f"{name} {count}" for name, count in done.items() if count)
    return CheckOutcome(
        False,
        f"No document changed and nothing was published, yet there was work: {work}. An earlier refresh was killed, or "
        "configuration was changed back; if the next refresh says the same, report it.",
        done,
    )


def check_snapshot_whole(context: RefreshContext) -> CheckOutcome:
    """Whatever the served snapshot names is there, belongs together, and is as it was written."""
    store = context.store
    try:
        manifest = read_manifest(store)
        table = open_vector_table(store, manifest)
        for segment in manifest.bm25:
            verify_segment(store.bm25, segment)
    except StoreError as error:
        return CheckOutcome(False, f"{error}. Restore it from a backup, or refresh with --full.")
    rows, indexed = table.count_rows(), sum(segment.chunks - segment.deleted for segment in manifest.bm25)
    numbers = {"snapshot": manifest.snapshot, "chunks": manifest.counts.chunks, "rows": rows, "indexed": indexed}
    faults = []
    if not manifest.counts.chunks == rows == indexed:
        faults.append(
            f"{counted(manifest.counts.chunks, 'chunk')}, {counted(rows, 'row')} and {indexed} in the lexical index "
            "do not agree"
        )
    if identity_of(table) != manifest.content.embedder:
        faults.append(f"the vectors are of {identity_of(table)}, the manifest names {manifest.content.embedder}")
    if manifest.content.hash != manifest.hash:
        faults.append("the manifest does not have the hash that it names")
    if faults:
        remedy = "Restore it from a backup, or refresh with --full; `rag-pipeline doctor` looks at all snapshots"
        return CheckOutcome(False, f"Snapshot {manifest.snapshot}: {'; '.join(faults)}. {remedy}.", numbers)
    return CheckOutcome(
        True,
        f"Snapshot {manifest.snapshot} is whole: {counted(rows, 'chunk')}, {counted(len(manifest.bm25), 'segment')}.",
        numbers,
    )
