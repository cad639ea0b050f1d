"""Stage `snapshot`: publish what the stages before have made, unless it is what is served already."""

from __future__ import annotations

import logging

from rag_pipeline.contracts import EmbeddingSpend, Manifest, TableVersion
from rag_pipeline.errors import StoreUnreachableError
from rag_pipeline.evaluation.query_set import configured_queries
from rag_pipeline.index.retention import maintain
from rag_pipeline.index.snapshot import publish, read_manifest, read_pointer, served_manifest
from rag_pipeline.lance import bucket_errors
from rag_pipeline.refresh.candidate import Candidate, check_agreement, model_access, working_candidate
from rag_pipeline.refresh.context import RefreshContext
from rag_pipeline.refresh.embedding_record import read_embedding_record, write_embedding_record
from rag_pipeline.refresh.evaluation import gate_error, judge_candidate
from rag_pipeline.refresh.fusion_record import fusion_record_of
from rag_pipeline.refresh.garbage import collects_own_garbage
from rag_pipeline.refresh.reasons import fused_weight, publishing_reasons
from rag_pipeline.refresh.reports import SnapshotReport

_LOGGER = logging.getLogger(__name__)


@collects_own_garbage
def refresh_snapshot(context: RefreshContext) -> SnapshotReport:
    """Publish a new snapshot when the candidate differs from the one that is served, or everything was rebuilt.

    It differs as well when its model is reached elsewhere, or when an edited query set has chosen another weight for hybrid
    searches: searches take both from the manifest.

    While a rollback holds, nothing is published. What old snapshots alone had is cleared away after publishing.

    Raises:
        StoreError: an earlier stage has not run, or vector table and lexical index do not hold the same chunks.
        GateError: the candidate answers worse than the corpus's gates allow.
        ConflictError: another refresh changed the tables, or another process published, meanwhile.
    """
    store = context.store
    candidate = working_candidate(context, "snapshot")
    check_agreement(context, candidate)
    context.reporter.begin(context.corpus.name, "snapshot", None, "snapshots")
    pointer = read_pointer(store)
    served = served_manifest(store)
    if pointer is not None and pointer.held:
        served = read_manifest(store)
        context.reporter.end(f"snapshot {served.snapshot} is held by a rollback; `rag-pipeline release` lets go of it")
        return _report(served, served, published=False, held=True)
    if served is not None and _same(context, candidate, served) and not context.full:
        context.reporter.end(f"snapshot {served.snapshot} holds all of it already")
        return _report(served, served, published=False)

    judgement = judge_candidate(context, "snapshot")
    if judgement.refusals:
        raise gate_error(context, judgement.refusals)
    record = read_embedding_record(store)
    spent = record.spent if record is not None else None

    def build(number: int, version: TableVersion) -> Manifest:
        return candidate.manifest(context, number, version, spent, judgement.record, judgement.fusion)

    manifest = publish(store, pointer, build)
    if record is not None:
        write_embedding_record(store, record.model_copy(update={"spent": EmbeddingSpend()}))
    dropped = _make_room(context)
    context.reporter.end(f"snapshot {manifest.snapshot} is served, {dropped} old ones dropped")
    return _report(manifest, served, published=True, dropped=dropped)


def _make_room(context: RefreshContext) -> int:
    """Clear away what old snapshots alone had. Returns how many were dropped.

    A bucket that fails now does not make a failure of what is published: the next publication clears away the rest.
    """
    try:
        with bucket_errors("the data root"):
            done = maintain(context.store, context.corpus.keep_snapshots, context.corpus.keep_days)
    except StoreUnreachableError as error:
        _LOGGER.warning("%s: published, but old snapshots could not be cleared away: %s", context.corpus.name, error)
        return 0
    return len(done.snapshots_dropped)


def _same(context: RefreshContext, candidate: Candidate, served: Manifest) -> bool:
    if (served.hash, served.model_access) != (candidate.hash, model_access(context)):
        return False
    record = fusion_record_of(context, candidate.hash, configured_queries(context.corpus))
    if record is None:  # the query set was edited, and the stage before has not asked it
        return True
    return fused_weight(served) == fused_weight(served.model_copy(update={"fusion": record.fusion}))


def _report(
    manifest: Manifest, before: Manifest | None, published: bool, held: bool = False, dropped: int = 0
) -> SnapshotReport:
    old, new = before.content.documents if before is not None else {}, manifest.content.documents
    return SnapshotReport(
        snapshot=manifest.snapshot,
        published=published,
        held=held,
        snapshots_dropped=dropped,
        documents_added=len(new.keys() - old.keys()),
        documents_changed=sum(old[name] != digest for name, digest in new.items() if name in old),
        documents_removed=len(old.keys() - new.keys()),
        reasons=tuple(publishing_reasons(before, manifest)) if published else (),
        hash=manifest.hash,
        documents=manifest.counts.documents,
        chunks=manifest.counts.chunks,
    )
