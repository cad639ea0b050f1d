"""The documents table and the items table: their schemas, and documents to and from rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from rag_pipeline.contracts import Document, Parsed, Section, SourceItem, Span
from rag_pipeline.hashing import canonical_json, text_hash, value_hash

OK = "ok"
STALE = "stale"
"""The source's present version cannot be read; the row holds the last good one."""
FAILED = "failed"
"""Never read successfully: the row holds the reason and no text."""

_TIME = pa.timestamp("us", "UTC")

DOCUMENTS_SCHEMA = pa.schema(
    [
        ("document_id", pa.string()),
        ("path", pa.string()),
        ("source", pa.string()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("title", pa.string()),
        ("media_type", pa.string()),
        ("modified_at", _TIME),
        ("text", pa.large_utf8()),
        ("structure", pa.large_utf8()),
        ("metadata", pa.large_utf8()),
        ("content_hash", pa.string()),
        ("layout_hash", pa.string()),
        ("document_hash", pa.string()),
    ]
)

ITEMS_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("modified_at", _TIME),
        ("etag", pa.string()),
        ("bytes_hash", pa.string()),
        ("complete", pa.bool_()),
        ("parse_key", pa.string()),
        ("read_at", _TIME),
    ]
)

Row = dict[str, Any]


def document_row(document: Document) -> Row:
    """A document as a row of the documents table.

    ``layout_hash`` covers what chunks depend on, ``document_hash`` all that a refresh of this document can change.
    ``reason`` says what of the document could not be read.
    """
    parsed = document.parsed
    structure = {
        "sections": [[s.start, s.end, list(s.heading_path), s.page] for s in parsed.sections],
        "atoms": [[a.start, a.end] for a in parsed.atoms],
    }
    content_hash = text_hash(parsed.text)
    layout_hash = value_hash({"content": content_hash, "title": parsed.title, "structure": structure})
    rest = {
        "media_type": parsed.media_type,
        "metadata": parsed.metadata,
        "source": document.source,
        "path": document.path,
    }
    reason = "; ".join(parsed.losses) or None
    if reason is not None:
        rest["losses"] = reason
    return {
        "document_id": document.document_id,
        "path": document.path,
        "source": document.source,
        "status": OK,
        "reason": reason,
        "title": parsed.title,
        "media_type": parsed.media_type,
        "modified_at": document.modified_at,
        "text": parsed.text,
        "structure": canonical_json(structure),
        "metadata": canonical_json(parsed.metadata),
        "content_hash": content_hash,
        "layout_hash": layout_hash,
        "document_hash": value_hash({"layout": layout_hash, **rest}),
    }


def parsed_of(row: Mapping[str, Any]) -> Parsed:
    """The parsed document that a row of the documents table holds."""
    structure = json.loads(row["structure"])
    return Parsed(
        text=row["text"],
        media_type=row["media_type"],
        title=row["title"],
        sections=tuple(
            Section(start=start, end=end, heading_path=tuple(path), page=page)
            for start, end, path, page in structure["sections"]
        ),
        atoms=tuple(Span(start=start, end=end) for start, end in structure["atoms"]),
        metadata=json.loads(row["metadata"]),
    )


def failed_row(document_id: str, source: str, path: str, reason: str) -> Row:
    """The row of a document that has never been read successfully."""
    empty: Row = dict.fromkeys(DOCUMENTS_SCHEMA.names)
    return {**empty, "document_id": document_id, "path": path, "source": source, "status": FAILED, "reason": reason}


def item_row(item: SourceItem, digest: str | None, complete: bool, parse_key: str, read_at: datetime) -> Row:
    """The row that lets the next refresh recognise an item.

    ``digest`` is the hash of its bytes, None for an item of many rows, whose documents are compared instead. An item
    that is not ``complete`` is read again in any case.
    """
    return {
        "path": item.path,
        "size": item.size,
        "modified_at": item.modified_at,
        "etag": item.etag,
        "bytes_hash": digest,
        "complete": complete,
        "parse_key": parse_key,
        "read_at": read_at,
    }


def to_batch(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as one Arrow batch."""
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)
