"""Whether a store is what its manifests say, and what lies there that nothing names."""

from __future__ import annotations

from typing import Literal

from rag_pipeline.contracts import Contract, Manifest
from rag_pipeline.errors import RagPipelineError
from rag_pipeline.index.bm25 import verify_segment
from rag_pipeline.index.retention import delete_spare_files, delete_spare_tags, spare_files, spare_tags
from rag_pipeline.index.snapshot import open_vector_table, read_manifest, read_pointer, snapshot_numbers
from rag_pipeline.index.store import VECTORS, CorpusStore
from rag_pipeline.lance import scan
from rag_pipeline.wording import counted

_REMEDY = "; `rag-pipeline doctor --fix` deletes them"


class Finding(Contract):
    """``error``: something that is served or kept is damaged, or a refresh would stop. ``warning``: something lies about or
    is unusual."""

    corpus: str
    severity: Literal["error", "warning"]
    message: str


def examine(store: CorpusStore) -> list[Finding]:
    """Check every kept snapshot of a corpus down to the hashes of its files. Nothing is changed."""
    if not store.root.is_dir():
        return [_finding(store, "warning", f"nothing was refreshed yet under {store.root.parent}")]
    findings: list[Finding] = []
    try:
        if read_pointer(store) is None:
            findings.append(_finding(store, "warning", "no snapshot was published yet; refresh the corpus"))
            served = None
        else:
            served = read_manifest(store)
        for number in snapshot_numbers(store):
            findings += _examine_snapshot(store, read_manifest(store, number), served)
        findings += _examine_leftovers(store)
    except RagPipelineError as error:
        findings.append(_finding(store, "error", str(error)))
    return findings


def _examine_snapshot(store: CorpusStore, manifest: Manifest, served: Manifest | None) -> list[Finding]:
    name = f"snapshot {manifest.snapshot}" + (" (served)" if manifest == served else "")
    findings = []
    if manifest.content.hash != manifest.hash:
        findings.append(_finding(store, "error", f"{name}: the manifest's content does not have the hash it names"))
    for segment in manifest.bm25:
        try:
            verify_segment(store.bm25, segment)
        except RagPipelineError as error:
            findings.append(_finding(store, "error", f"{name}: {error}"))
    try:
        table = open_vector_table(store, manifest)
        rows = sum(batch.num_rows for batch in scan(table, ["chunk_id"]))
    except RagPipelineError as error:
        findings.append(_finding(store, "error", str(error)))
    else:
        if rows != manifest.counts.chunks:
            message = f"{name}: the vector table holds {counted(rows, 'row')}, the manifest names {manifest.counts.chunks}"
            findings.append(_finding(store, "error", message))
    return findings


def _examine_leftovers(store: CorpusStore) -> list[Finding]:
    """What a refresh that was killed leaves behind: files and tags that no snapshot and no working list names."""
    findings = []
    files = spare_files(store)
    if files:
        shown = ", ".join(path.name for path in files[:3])
        findings.append(_finding(store, "warning", f"{counted(len(files), 'file')} of no snapshot: {shown}{_REMEDY}"))
    table = store.table(VECTORS)
    tags = spare_tags(store, table) if table is not None else []
    if tags:
        findings.append(
            _finding(store, "warning", f"tags of the vector table without a snapshot: {', '.join(tags[:3])}{_REMEDY}")
        )
    return findings


def clear_leftovers(store: CorpusStore) -> int:
    """Delete what :func:`examine` warns of. The caller holds the corpus's lock. Returns how many things were deleted."""
    if not store.root.is_dir():
        return 0
    return delete_spare_files(store) + len(delete_spare_tags(store))


def _finding(store: CorpusStore, severity: Literal["error", "warning"], message: str) -> Finding:
    return Finding(corpus=store.corpus, severity=severity, message=message)
