"""From a listing to documents: what is read, what is taken over, what fails, and who keeps an id."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Literal, NamedTuple, NoReturn

from rag_pipeline.contracts import Document, SourceItem
from rag_pipeline.errors import ParseError, SourceReadError
from rag_pipeline.hashing import bytes_hash
from rag_pipeline.parsing import Parsers, Parsing, parse_text
from rag_pipeline.refresh.context import RefreshContext
from rag_pipeline.refresh.document_rows import OK, STALE, document_row, failed_row, item_row
from rag_pipeline.refresh.document_state import DocumentsState, KnownDocument, Writer, looks_unchanged, parse_key
from rag_pipeline.refresh.reports import DocumentChange, DocumentsReport, FailedDocument, IncompleteDocument, SourceListing
from rag_pipeline.sources import ItemReader, Row

_SAMPLED = 5
"""How many documents of each kind of change a report names."""
_MOST_BEGUN = 256
_MOST_BYTES_BEGUN = 64 * 1024**2
"""Files that are read ahead while the first of them is parsed. A larger one is read when no other is held."""


class _Begun(NamedTuple):
    """A file that was read and is being parsed. ``digest`` is None where it could not be read."""

    item: SourceItem
    digest: str | None
    read_at: datetime
    size: int
    parsing: Parsing


class Loader:
    """Takes the items of one listing in order of their paths and decides what becomes of each document.

    The order decides who keeps an id that two rows claim: the first path, and in it the first row. Several files are
    parsed at a time; what becomes of them is decided and written in order all the same.
    """

    def __init__(self, context: RefreshContext, state: DocumentsState, writer: Writer, parsers: Parsers) -> None:
        self._reporter = context.reporter
        self._parsers = parsers
        self._begun: deque[_Begun] = deque()
        self._bytes_begun = 0
        self.corpus = context.corpus
        self.full = context.full
        self.state = state
        self.writer = writer
        self.listed: set[str] = set()
        self.claimed: dict[str, str] = {}
        self.contents: set[str | None] = set()
        self.failures: list[FailedDocument] = []
        self.listing: SourceListing | None = None
        self._sample: dict[str, list[DocumentChange]] = {"added": [], "changed": [], "removed": []}
        self._incomplete: list[IncompleteDocument] = []
        self._parse_key = parse_key(self.corpus)
        self._reread: set[str] = set()
        self._added = self._changed = self._items_read = self._bytes_read = 0

    def looks_changed(self, item: SourceItem) -> bool:
        """Whether an item has to be read, as far as the listing tells."""
        always_read = self.full or item.path in self._reread or self.corpus.source.verify == "hash"
        return not looks_unchanged(item, self.state.items.get(item.path), self._parse_key, always_read)

    def load(self, item: SourceItem, reader: ItemReader) -> None:
        """Read an item and begin to parse it, or take over what is known of it."""
        self.listed.add(item.path)
        if not self.looks_changed(item) and self._adopt(item.path):
            self._advance(item)
            return
        self._items_read += 1
        self._bytes_read += item.size
        if self.corpus.source.format == "files":
            self._begin_file(item, reader)
        else:
            self._load_rows(item, reader)
            self._advance(item)

    def finish(self) -> None:
        """Wait for all files that were begun."""
        while self._begun:
            self._finish_first()

    def _advance(self, item: SourceItem) -> None:
        self._reporter.advance(1, item.path, item.size, len(self.failures))

    def report(self, removed: Sequence[KnownDocument]) -> DocumentsReport:
        """What was found, with the documents that are removed."""
        gone = [known for known in removed if known.served]
        for known in gone[:_SAMPLED]:
            self._note_change("removed", known.source, None)
        kept = sum(failure.kept for failure in self.failures)
        incomplete = sorted(self._incomplete, key=lambda document: document.source)
        total = len(self.claimed) - len(self.failures) + kept
        return DocumentsReport(
            total=total,
            added=self._added,
            changed=self._changed,
            removed=len(gone),
            unchanged=total - kept - self._added - self._changed,
            failed=len(self.failures),
            stale=kept,
            items_listed=len(self.listed),
            items_read=self._items_read,
            bytes_read=self._bytes_read,
            failures=tuple(sorted(self.failures, key=lambda failure: failure.source)),
            incomplete=tuple(incomplete),
            sample=tuple(change for changes in self._sample.values() for change in changes),
            listing=self.listing,
        )

    def _adopt(self, path: str) -> bool:
        """Take over what is known of an item. False when that is nothing, or an earlier item has taken one of its ids."""
        documents = self.state.by_path[path]
        if not documents or any(known.document_id in self.claimed for known in documents):
            return False
        for known in documents:
            self.claimed[known.document_id] = known.source
            self.contents.add(known.content_hash)
            if known.status != OK:
                self._note_failure(known.source, known.reason or "", known.served)
            elif known.reason:
                self._incomplete.append(IncompleteDocument(source=known.source, reason=known.reason))
        return True

    def _begin_file(self, item: SourceItem, reader: ItemReader) -> None:
        while self._begun and (self._is_full(item.size) or self._begun[0].parsing.ready()):
            self._finish_first()
        read_at = datetime.now(timezone.utc)
        try:
            data, item = reader.read(item)
        except SourceReadError as error:
            self._begun.append(_Begun(item, None, read_at, 0, _unreadable(error)))
            return
        digest = bytes_hash(data)
        known = self.state.items.get(item.path)
        same = known is not None and known.bytes_hash == digest and known.parse_key == self._parse_key
        if same and not self.full and self._adopt(item.path):
            self.writer.put_item(item_row(item, digest, True, self._parse_key, read_at))
            self._advance(item)
            return
        self._bytes_begun += len(data)
        self._begun.append(_Begun(item, digest, read_at, len(data), self._parsers.submit(data, item.path)))

    def _is_full(self, size: int) -> bool:
        return len(self._begun) >= _MOST_BEGUN or self._bytes_begun + size > _MOST_BYTES_BEGUN

    def _finish_first(self) -> None:
        item, digest, read_at, size, parsing = self._begun.popleft()
        try:
            document = Document(
                document_id=item.path,
                source=item.path,
                path=item.path,
                modified_at=item.modified_at,
                parsed=parsing.result(),
            )
        except (ParseError, SourceReadError) as error:
            self._fail(item.path, item.path, item.path, str(error))
        else:
            self._put(item, document)
        self._bytes_begun -= size
        self.writer.put_item(item_row(item, digest, digest is not None, self._parse_key, read_at))
        self._advance(item)

    def _load_rows(self, item: SourceItem, reader: ItemReader) -> None:
        read_at = datetime.now(timezone.utc)
        complete, rows = True, 0
        try:
            item, found = reader.rows(item)
            for row in found:
                rows += 1
                place = f"{item.path}#{row.number}"
                if not isinstance(row, Row):
                    self._fail(row.document_id or place, place, item.path, row.reason)
                elif row.document_id in self.claimed:
                    complete = False
                    reason = f"id {row.document_id!r} is taken already by {self.claimed[row.document_id]}"
                    self._fail(place, place, item.path, reason)
                else:
                    self._load_row(item, row, place)
                self.writer.flush_documents()
        except SourceReadError as error:
            complete = False
            for known in [known for known in self.state.by_path[item.path] if known.document_id not in self.claimed]:
                self._fail(known.document_id, known.source, item.path, str(error))
            if not self.state.by_path[item.path]:
                self._fail(item.path, item.path, item.path, str(error))
        if not rows and complete:
            self._fail(item.path, item.path, item.path, "holds no rows")
        self.writer.put_item(item_row(item, None, complete, self._parse_key, read_at))

    def _load_row(self, item: SourceItem, row: Row, place: str) -> None:
        try:
            document = Document(
                document_id=row.document_id,
                source=f"{item.path}#{row.document_id}",
                path=item.path,
                modified_at=item.modified_at,
                parsed=parse_text(row.text, title=row.title, metadata=row.metadata),
            )
        except ParseError as error:
            self._fail(row.document_id, place, item.path, str(error))
        else:
            self._put(item, document)

    def _put(self, item: SourceItem, document: Document) -> None:
        known = self.state.documents.get(document.document_id)
        if known is not None and known.path > item.path:
            self._reread.add(known.path)
        row = document_row(document)
        self.claimed[document.document_id] = document.source
        self.contents.add(row["content_hash"])
        if row["reason"]:
            self._incomplete.append(IncompleteDocument(source=document.source, reason=row["reason"]))
        if known is not None and known.status == OK and known.document_hash == row["document_hash"] and not self.full:
            return
        if known is None or not known.served:
            self._added += 1
            self._note_change("added", document.source, document.parsed.title)
        elif known.document_hash != row["document_hash"] or known.status == STALE:
            self._changed += 1
            self._note_change("changed", document.source, document.parsed.title)
        else:
            return
        self.writer.put(row)

    def _fail(self, document_id: str, source: str, path: str, reason: str) -> None:
        """Record that a document cannot be had just now: the last good version stays, marked stale."""
        if document_id in self.claimed:
            return
        known = self.state.documents.get(document_id)
        served = known is not None and known.served
        self.claimed[document_id] = source
        self._note_failure(source, reason, served)
        if known is not None and served:
            self.contents.add(known.content_hash)
            if (known.status, known.reason) != (STALE, reason):
                self.writer.mark_stale(document_id, reason)
        elif known is None or known.reason != reason:
            self.writer.put(failed_row(document_id, source, path, reason))

    def _note_change(self, change: Literal["added", "changed", "removed"], source: str, title: str | None) -> None:
        if len(self._sample[change]) < _SAMPLED:
            self._sample[change].append(DocumentChange(change=change, source=source, title=title))

    def _note_failure(self, source: str, reason: str, kept: bool) -> None:
        self.failures.append(FailedDocument(source=source, reason=reason, kept=kept))


def _unreadable(error: SourceReadError) -> Parsing:
    def result() -> NoReturn:
        raise error

    return Parsing(lambda: True, result)
