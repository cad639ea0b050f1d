"""Reading items one after the other, with those to come fetched in parallel where each takes a request."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import NamedTuple

from typing_extensions import Self

from rag_pipeline.config import CorpusConfig
from rag_pipeline.contracts import SourceItem
from rag_pipeline.errors import SourceReadError
from rag_pipeline.sources.jsonl import jsonl_rows
from rag_pipeline.sources.parquet import parquet_rows
from rag_pipeline.sources.rows import BadRow, Row
from rag_pipeline.sources.store import Store, open_store

_REQUESTS = 16
_ITEMS_AHEAD = 64
_BYTES_AHEAD = 64 << 20
"""Bytes that are fetched and not yet asked for, at most; an item that is larger is fetched alone."""


class ReadItem(NamedTuple):
    """An item's bytes, and the item as it was when they were read."""

    data: bytes
    item: SourceItem


class ItemReader:
    """Reads the items of a corpus's source. Use it in a `with` block.

    Args:
        announced: the items that will most likely be read, in that order. Looked at only where reading ahead helps.
    """

    def __init__(self, corpus: CorpusConfig, announced: Iterable[SourceItem] = ()) -> None:
        self._corpus = corpus
        self._store = open_store(corpus)
        self._waiting: deque[SourceItem] = deque(announced if self._store.reads_ahead else ())
        self._ahead: deque[tuple[SourceItem, Future[ReadItem]]] = deque()
        self._bytes = 0
        self._pool = ThreadPoolExecutor(_REQUESTS, "reading") if self._waiting else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def read(self, item: SourceItem) -> ReadItem:
        """Read an item whole.

        Raises:
            SourceReadError: it vanished or cannot be read; the message names path and reason.
            SourceError: the source itself is not there any more.
            StoreUnreachableError: the store cannot be reached.
        """
        future = self._fetched(item)
        return future.result() if future is not None else _read(self._store, item)

    def rows(self, item: SourceItem) -> tuple[SourceItem, Iterator[Row | BadRow]]:
        """The rows of one item in order, with memory bounded by the longest line or the largest row group.

        A row that cannot be used gives a BadRow and stops nothing. Ids are not compared with each other here.

        Raises:
            SourceReadError: the item vanished, cannot be read, or is damaged, which may show only with the last row.
            SourceError: a column that ``source.fields`` names is not in a Parquet file.
        """
        file, opened = self._store.open(item)

        def rows() -> Iterator[Row | BadRow]:
            try:
                with file:
                    if self._corpus.source.format == "parquet":
                        yield from parquet_rows(file, self._corpus, item.path)
                    else:
                        yield from jsonl_rows(file, self._corpus)
            except OSError as error:
                raise SourceReadError(f"{item.path}: cannot be read: {error.strerror or error}") from None

        return opened, rows()

    def _fetched(self, item: SourceItem) -> Future[ReadItem] | None:
        """The read of an item that was announced. What was announced before it and not asked for is dropped."""
        self._fetch_more()
        if not any(ahead.path == item.path for ahead, _ in self._ahead):
            return None
        while True:
            ahead, future = self._ahead.popleft()
            self._bytes -= ahead.size
            if ahead.path == item.path:
                self._fetch_more()
                return future
            future.cancel()

    def _fetch_more(self) -> None:
        while (
            self._pool is not None
            and self._waiting
            and len(self._ahead) < _ITEMS_AHEAD
            and (not self._ahead or self._bytes + self._waiting[0].size <= _BYTES_AHEAD)
        ):
            item = self._waiting.popleft()
            self._bytes += item.size
            self._ahead.append((item, self._pool.submit(_read, self._store, item)))


def _read(store: Store, item: SourceItem) -> ReadItem:
    file, opened = store.open(item)
    try:
        with file:
            return ReadItem(file.read(), opened)
    except OSError as error:
        raise SourceReadError(f"{item.path}: cannot be read: {error.strerror or error}") from None


def read_item(corpus: CorpusConfig, item: SourceItem) -> bytes:
    """:meth:`ItemReader.read` of an only item."""
    with ItemReader(corpus) as reader:
        return reader.read(item).data


def read_rows(corpus: CorpusConfig, item: SourceItem) -> Iterator[Row | BadRow]:
    """:meth:`ItemReader.rows` of an only item."""
    with ItemReader(corpus) as reader:
        yield from reader.rows(item)[1]
