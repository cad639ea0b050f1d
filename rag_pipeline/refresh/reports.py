"""What a stage says it did. Numbers keep their names: they become metadata that Dagster plots over time."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from rag_pipeline.contracts import Contract, TunedFusion


class FailedDocument(Contract):
    """A document that could not be read or parsed, and why. ``kept`` tells that an earlier version is still served."""

    source: str
    reason: str
    kept: bool


class DocumentChange(Contract):
    """A document that came, changed or went."""

    change: Literal["added", "changed", "removed"]
    source: str
    title: str | None = None


class SourceListing(Contract):
    """What a listing of the source showed: items, their bytes, the latest change, and a hash over all that it showed."""

    items: int
    bytes: int
    modified_at: datetime | None
    hash: str


class IncompleteDocument(Contract):
    """A document that was read but for a part, such as a page, and what is missing."""

    source: str
    reason: str


class DocumentsReport(Contract):
    """``total`` counts the documents that are served; the failed ones without an earlier version are not among them.

    ``sample`` and ``listing`` are for those who look on, and are left out where the report is written as JSON.
    """

    total: int
    added: int
    changed: int
    removed: int
    unchanged: int
    failed: int
    stale: int
    items_listed: int
    items_read: int
    bytes_read: int
    failures: tuple[FailedDocument, ...] = Field(default=())
    incomplete: tuple[IncompleteDocument, ...] = Field(default=())
    sample: tuple[DocumentChange, ...] = Field(default=(), exclude=True)
    listing: SourceListing | None = Field(default=None, exclude=True)


class ChunksReport(Contract):
    """``context_lines_written`` came from a chat model; where some are missing, title and headings stand for them."""

    total: int
    added: int
    removed: int
    documents_chunked: int
    context_lines_written: int = 0
    context_lines_missing: int = 0
    context_tokens: int = 0
    context_cost_usd: float | None = 0.0


class EmbeddingsReport(Contract):
    """``embedded`` texts went to the model; ``cached`` ones were new to this corpus and had a vector already.

    ``cost_usd`` is None where no price is known. ``identity_before`` is set when the embedder is another one than
    that of what is served. ``turned_from`` says why embedders of the chain could not be had.
    """

    texts: int
    embedded: int
    cached: int
    tokens: int
    cost_usd: float | None
    embed_seconds: float
    identity: str
    identity_before: str | None = None
    turned_from: tuple[str, ...] = ()


class VectorTableReport(Contract):
    rows: int
    rows_written: int
    rows_deleted: int
    rebuilt: bool
    version: int


class BM25Report(Contract):
    """``language_before`` is set when the language is another one than that of what is served."""

    chunks: int
    added: int
    deleted: int
    segments: int
    bytes: int
    rebuilt: bool
    language: str
    language_before: str | None = None


class EvaluationReport(Contract):
    """``searches`` and ``queries_embedded`` are 0 when the store had the figures already.

    ``drift`` is the part of the documents that have changed since the figures were measured: known items are asked
    again when it is worth it. ``fusion`` is the weight that the query set chose, and what it is worth.

    ``figures`` are means by mode and metric. ``refusals`` are why nothing may be published; ``accepted`` tells that
    there were some which --accept-drop has turned into ``warnings``.
    """

    kind: str
    query_set: str
    queries: int
    searches: int
    queries_embedded: int
    drift: float
    fusion: TunedFusion | None
    figures: dict[str, dict[str, float]]
    refusals: tuple[str, ...]
    warnings: tuple[str, ...]
    accepted: bool


class SnapshotReport(Contract):
    """``published`` is false when the candidate equals what is served already, or a rollback holds.

    Documents are counted against what was served before, whatever refreshes in between have loaded. ``reasons`` say what
    else made for a new snapshot: settings that have changed since.
    """

    snapshot: int
    published: bool
    held: bool
    snapshots_dropped: int
    documents_added: int
    documents_changed: int
    documents_removed: int
    reasons: tuple[str, ...] = ()
    hash: str
    documents: int
    chunks: int
