"""Stage `documents`: make the documents table hold what the source holds.

An item whose size, time and etag are as they were is not read. What cannot be read or parsed keeps its last good
version, marked stale. Nothing is deleted before the whole source has been seen and the safety limits hold.
"""

from __future__ import annotations

from rag_pipeline.errors import SourceError, StoreError
from rag_pipeline.evaluation.query_set import configured_queries
from rag_pipeline.index.snapshot import read_manifest, snapshot_numbers
from rag_pipeline.parsing import NO_TEXT_REASONS, Parsers
from rag_pipeline.refresh.context import RefreshContext
from rag_pipeline.refresh.document_loader import Loader
from rag_pipeline.refresh.document_state import DocumentsState, DocumentsWriter, KnownDocument, Writer
from rag_pipeline.refresh.garbage import collects_own_garbage
from rag_pipeline.refresh.overlap import check_apart
from rag_pipeline.refresh.reports import DocumentsReport
from rag_pipeline.refresh.source import listing_of, nothing_listed
from rag_pipeline.sources import ItemReader, list_items
from rag_pipeline.wording import counted

_FAILURES_SHOWN = 20
_ROUNDING = 1e-9
"""0.29 of 100 is a little less than 29 in floating point."""


@collects_own_garbage
def refresh_documents(context: RefreshContext) -> DocumentsReport:
    """Reconcile the documents table with the source.

    Raises:
        ConfigError: the query set cannot be read, which the stage `evaluation` will ask: found before anything is paid for.
        SourceError: the source lists nothing, or more would be deleted or has failed than the corpus's safety allows.
            Nothing has been deleted then.
    """
    configured_queries(context.corpus)
    state = DocumentsState(context.store)
    loader = load_source(context, state, DocumentsWriter(context.store))
    removed = removed_documents(context, state, loader)
    loader.writer.delete([known.document_id for known in removed], sorted(state.items.keys() - loader.listed))
    report = loader.report(removed)
    context.reporter.end(
        f"{counted(report.total, 'document')}, {report.added} added, {report.changed} changed, {report.removed} removed, "
        f"{report.failed} failed"
    )
    return report


def load_source(context: RefreshContext, state: DocumentsState, writer: Writer) -> Loader:
    """List the source and give the writer what has changed.

    Raises:
        SourceError: the source lists nothing.
        ConfigError: the source and the data root overlap.
    """
    corpus = context.corpus
    check_apart(corpus, context.data_root)
    items = list_items(corpus)
    if not items and not (context.allow_deletes and state.served):
        raise nothing_listed(corpus, state.served)
    context.reporter.begin(corpus.name, "documents", len(items), "items", sum(item.size for item in items))
    with Parsers(corpus.parsing) as parsers:
        loader = Loader(context, state, writer, parsers)
        loader.listing = listing_of(items)
        with ItemReader(corpus, filter(loader.looks_changed, items)) as reader:
            for item in items:
                loader.load(item, reader)
        loader.finish()
    writer.flush()
    return loader


def removed_documents(context: RefreshContext, state: DocumentsState, loader: Loader) -> list[KnownDocument]:
    """The known documents that the source no longer has.

    Raises:
        SourceError: more have failed or would be deleted than the corpus's safety allows.
    """
    _check_failures(context, loader)
    removed = [known for known in state.documents.values() if known.document_id not in loader.claimed]
    _check_deletions(context, state, loader, removed)
    return removed


def _check_failures(context: RefreshContext, loader: Loader) -> None:
    everything, failures = len(loader.claimed), loader.failures
    if len(failures) < everything:
        failures = [failure for failure in failures if failure.kept or failure.reason not in NO_TEXT_REASONS]
    limit = context.corpus.safety.max_failed_fraction
    if everything and (len(failures) > limit * everything + _ROUNDING or len(failures) == everything):
        context.unread.extend(loader.failures)
        # Those that could be read before come first: that is news.
        failures = sorted(failures, key=lambda failure: not failure.kept)
        lines = [f"\n  {failure.source}: {failure.reason}" for failure in failures[:_FAILURES_SHOWN]]
        if len(failures) > len(lines):
            lines.append(f"\n  … and {len(failures) - len(lines)} more, which --json lists")
        raise SourceError(
            f"{context.corpus.name}: {len(failures)} of {counted(everything, 'document')} cannot be read "
            f"(safety.max_failed_fraction allows {limit:g}). Mend or exclude them, or raise the limit in "
            f"{context.corpus.file}:"
            f"{''.join(lines)}"
        )


def _check_deletions(context: RefreshContext, state: DocumentsState, loader: Loader, removed: list[KnownDocument]) -> None:
    unpublished = _unpublished_deletions(context, state, loader)
    lost = unpublished + [
        known.source
        for known in removed
        if known.served and known.content_hash not in loader.contents and known.path not in context.removed
    ]
    limit, everything = context.corpus.safety.max_delete_fraction, state.served + len(unpublished)
    if len(lost) > limit * everything + _ROUNDING and not context.allow_deletes:
        shown = ", ".join(lost[:3])
        raise SourceError(
            f"{context.corpus.name}: {len(lost)} of {counted(everything, 'document')} would be deleted "
            f"(safety.max_delete_fraction allows {limit:g}): {shown}{', …' if len(lost) > 3 else ''}. "
            f"{'What is served stays as it is' if unpublished else 'Nothing was deleted'}; "
            f"if this is right, refresh with --allow-deletes"
        )


def _unpublished_deletions(context: RefreshContext, state: DocumentsState, loader: Loader) -> list[str]:
    """Documents of the newest snapshot that an earlier refresh deleted and did not come to publish.

    They count again: what was allowed then was allowed for that refresh. Moved ones live on under another name.
    """
    numbers = snapshot_numbers(context.store)
    try:
        published = read_manifest(context.store, numbers[-1]).content.documents if numbers else {}
    except StoreError:  # a damaged manifest does not keep a refresh from making a sound one
        return []
    gone = published.keys() - state.documents.keys() - loader.claimed.keys() - set(context.removed)
    if not gone:
        return []
    held = {known.document_hash for known in state.documents.values()}
    return sorted(name for name in gone if published[name] not in held)
