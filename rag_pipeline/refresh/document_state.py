"""What the documents and items tables hold before a refresh, and how they are changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from rag_pipeline.config import CorpusConfig
from rag_pipeline.contracts import SourceItem
from rag_pipeline.hashing import value_hash
from rag_pipeline.index.store import DOCUMENTS, ITEMS, CorpusStore
from rag_pipeline.lance import create, delete_keys, read, read_keys, upsert
from rag_pipeline.parsing import PARSER_VERSION
from rag_pipeline.refresh.document_rows import DOCUMENTS_SCHEMA, ITEMS_SCHEMA, OK, STALE, Row, to_batch

_ROWS_PER_COMMIT = 4096
_CHARACTERS_PER_COMMIT = 32 * 1024 * 1024

_ITEMS_WITH_NUMBERS = pa.schema(
    [(field.name, pa.int64() if pa.types.is_timestamp(field.type) else field.type) for field in ITEMS_SCHEMA]
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_CLOCK_SLACK = 2_000_000
"""Microseconds. A file changed twice within the resolution of its time stamp looks unchanged: one so young is read again."""


class KnownItem(NamedTuple):
    """An item as the last refresh that read it saw it. Times are microseconds since 1970, which are quick to read."""

    path: str
    size: int
    modified_at: int
    etag: str | None
    bytes_hash: str | None
    complete: bool
    parse_key: str
    read_at: int


class KnownDocument(NamedTuple):
    document_id: str
    path: str
    source: str
    status: str
    reason: str | None
    content_hash: str | None
    document_hash: str | None

    @property
    def served(self) -> bool:
        return self.status in (OK, STALE)


def parse_key(corpus: CorpusConfig) -> str:
    """The hash over all that decides how bytes become documents: with another one, everything is read again."""
    source = corpus.source
    fields = source.fields.model_dump() if source.fields else None
    parsing = corpus.parsing.model_dump(exclude={"workers"}, exclude_defaults=True)
    return value_hash({"parser": PARSER_VERSION, "format": source.format, "fields": fields, "parsing": parsing})


def looks_unchanged(item: SourceItem, known: KnownItem | None, key: str, always_read: bool) -> bool:
    """Whether an item need not be read: it was read completely, by the same parsers, and nothing in the listing moved.

    ``always_read`` is the corpus's `source.verify: hash`.
    """
    return (
        known is not None
        and not always_read
        and known.complete
        and known.parse_key == key
        and known.size == item.size
        and known.etag == item.etag
        and known.modified_at == (item.modified_at - _EPOCH) // _MICROSECOND
        and (item.etag_is_exact or known.modified_at < known.read_at - _CLOCK_SLACK)
    )


class DocumentsState:
    """All that a refresh knows before it looks at the source. Texts stay in the table."""

    def __init__(self, store: CorpusStore) -> None:
        items, documents = store.table(ITEMS), store.table(DOCUMENTS)
        self.items: dict[str, KnownItem] = {}
        self.documents: dict[str, KnownDocument] = {}
        self.by_path: defaultdict[str, list[KnownDocument]] = defaultdict(list)
        if documents is not None:
            for known in map(KnownDocument._make, _rows(read(documents, KnownDocument._fields))):
                self.documents[known.document_id] = known
                self.by_path[known.path].append(known)
        if items is not None:
            rows = _rows(read(items, KnownItem._fields).cast(_ITEMS_WITH_NUMBERS))
            self.items = {known.path: known for known in map(KnownItem._make, rows)}

    @property
    def served(self) -> int:
        return sum(document.served for document in self.documents.values())


def _rows(columns: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in columns.columns), strict=True)


class Writer(Protocol):
    """Takes what a loader finds. Documents come before the item that vouches for them."""

    def put(self, row: Row) -> None:
        """A document that is new or changed, or one that never could be read."""
        ...

    def mark_stale(self, document_id: str, reason: str) -> None:
        """Keep the last good version of this document, with the reason why the present one cannot be had."""
        ...

    def put_item(self, row: Row) -> None:
        """An item all of whose documents were given."""
        ...

    def flush_documents(self) -> None:
        """A moment at which many rows of one item may be put away."""
        ...

    def flush(self) -> None:
        """Put away all that was given."""
        ...

    def delete(self, document_ids: list[str], paths: list[str]) -> None:
        """Delete documents and items."""
        ...


class DocumentsWriter:
    """Collects rows and commits them in groups, documents always before the items that vouch for them.

    A crash between two commits leaves items unrecorded; they are read again and found equal.
    """

    def __init__(self, store: CorpusStore) -> None:
        self._store = store
        self._documents: dict[str, Row] = {}
        self._items: dict[str, Row] = {}
        self._stale: dict[str, str] = {}
        self._characters = 0

    def put(self, row: Row) -> None:
        self._documents[row["document_id"]] = row
        self._characters += len(row["text"] or "")

    def put_item(self, row: Row) -> None:
        """Record an item. Call it after the last document of the item was put."""
        self._items[row["path"]] = row
        if len(self._documents) >= _ROWS_PER_COMMIT or self._characters >= _CHARACTERS_PER_COMMIT:
            self.flush()

    def flush_documents(self) -> None:
        """Commit the documents put so far, so that an item of many rows does not pile up in memory."""
        if len(self._documents) >= _ROWS_PER_COMMIT or self._characters >= _CHARACTERS_PER_COMMIT:
            self._commit_documents()

    def mark_stale(self, document_id: str, reason: str) -> None:
        """Keep the last good version of this document, with the reason why the present one cannot be had."""
        self._stale[document_id] = reason

    def flush(self) -> None:
        self._commit_documents()
        self._upsert(ITEMS, "path", list(self._items.values()), ITEMS_SCHEMA)
        self._items.clear()

    def delete(self, document_ids: list[str], paths: list[str]) -> None:
        """Delete documents, and before them the items that vouch for them."""
        items, documents = self._store.table(ITEMS), self._store.table(DOCUMENTS)
        if items is not None and paths:
            delete_keys(items, "path", paths)
        if documents is not None and document_ids:
            delete_keys(documents, "document_id", document_ids)

    def _commit_documents(self) -> None:
        table = self._store.table(DOCUMENTS)
        if self._stale and table is not None:
            for row in read_keys(table, DOCUMENTS_SCHEMA.names, "document_id", list(self._stale)).to_pylist():
                self.put({**row, "status": STALE, "reason": self._stale[row["document_id"]]})
        self._stale.clear()
        self._upsert(DOCUMENTS, "document_id", list(self._documents.values()), DOCUMENTS_SCHEMA)
        self._documents.clear()
        self._characters = 0

    def _upsert(self, name: str, key: str, rows: list[Row], schema: Any) -> None:
        if not rows:
            return
        table = self._store.table(name)
        if table is None:
            create(self._store.database, name, schema, [to_batch(rows, schema)])
        else:
            upsert(table, key, to_batch(rows, schema))
