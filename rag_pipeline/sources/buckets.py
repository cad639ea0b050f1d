"""Items in buckets: objects below a prefix, or one object."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from io import BytesIO
from typing import Any, BinaryIO

from rag_pipeline.config import CorpusConfig, StorageOptions
from rag_pipeline.contracts import SourceItem
from rag_pipeline.errors import ConfigError, SourceError, SourceReadError, StoreUnreachableError
from rag_pipeline.sources.store import OpenItem
from rag_pipeline.storage import (
    PAUSES_SECONDS,
    Access,
    client_errors,
    failure_of,
    is_cut,
    parse_address,
    read_again,
    resolve_access,
)
from rag_pipeline.storage.s3_requests import S3Requests

_KEYS_PER_PAGE = 1000
"""What S3 gives at most for one request."""
_BYTES_IN_MEMORY = 8 << 20
"""Larger objects are read from a temporary file."""
_STREAMED_BYTES = 1 << 20
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_REPLACED = "\ufffd"
"""What some servers write in a listing for characters that XML cannot hold."""


def open_bucket(corpus: CorpusConfig, where: str) -> BucketObject | BucketFolder:
    """The objects that a corpus's source names.

    Args:
        where: file and key, for messages.

    Raises:
        ConfigError: there are no credentials, or an option does not belong there.
        SourceError: there is no such bucket, or access is refused.
        StoreUnreachableError: the store cannot be reached.
    """
    objects = _objects(corpus, where)
    key = objects.address.key
    if key and not corpus.source.path.endswith("/") and objects.is_object(key):
        return BucketObject(objects)
    return BucketFolder(objects, hidden=corpus.source.hidden)


def put_object(corpus: CorpusConfig, path: str, data: bytes) -> None:
    """Write an item; :func:`rag_pipeline.sources.put_item` has checked its path."""
    where = f"{corpus.file}: source.path"
    _objects(corpus, where).put(open_bucket(corpus, where).key_of(path), data)


def remove_object(corpus: CorpusConfig, path: str) -> int:
    """Delete an item; :func:`rag_pipeline.sources.remove_item` has checked its path. Returns its size."""
    where = f"{corpus.file}: source.path"
    objects = _objects(corpus, where)
    key = open_bucket(corpus, where).key_of(path)
    found = objects.found(key, refused_is_none=False)
    if found is None:
        raise SourceError(f"{corpus.source.path}: there is no item {path!r}")
    objects.delete(key)
    return int(found["size"])


def _objects(corpus: CorpusConfig, where: str) -> _Objects:
    address = parse_address(corpus.source.path)
    options = corpus.source.storage_options or StorageOptions()
    try:
        return _Objects(resolve_access(address, **options.model_dump()), where)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


class _Objects:
    """The objects below one address. Errors name file, key and address.

    Keys that obstore refuses are read by requests of our own; a listing in which there are such keys is made anew so.
    """

    def __init__(self, access: Access, where: str) -> None:
        self.address = access.address
        self._access = access
        self._store = access.store
        self._where = where

    def is_object(self, key: str) -> bool:
        """Whether there is an object of this very key. One that may be listed and not looked at counts as none."""
        return self.found(key) is not None

    def found(self, key: str, *, refused_is_none: bool = True) -> Any | None:
        """What is known of an object, or None when there is none."""
        try:
            return self._store.head(key)
        except FileNotFoundError:
            return None
        except client_errors() as error:
            failure = failure_of(error)
            if failure is not None and (failure.kind == "path" or (failure.kind == "refused" and refused_is_none)):
                return None  # the listing says what is wrong
            raise self._error(error) from None

    def listed(self, prefix: str) -> Iterator[Any]:
        """All objects whose keys begin so; a prefix ends with a slash, or is empty.

        Raises:
            _RefusedKeyError: there is a key that obstore cannot list.
        """
        last, pauses = None, iter(PAUSES_SECONDS)
        while True:
            try:
                for page in self._store.list(prefix or None, offset=last, chunk_size=_KEYS_PER_PAGE):
                    if S3Requests.can_reach(self._access) and any(_REPLACED in found["path"] for found in page):
                        raise _RefusedKeyError
                    yield from page
                    last, pauses = page[-1]["path"], iter(PAUSES_SECONDS)
                return
            except client_errors() as error:
                failure = failure_of(error)
                if failure is not None and failure.kind == "path" and self.address.scheme == "s3":
                    raise _RefusedKeyError from None
                pause = next(pauses, None) if is_cut(error) else None
                if pause is None:
                    raise self._error(error) from None
                time.sleep(pause)

    def listed_by_request(self, prefix: str) -> Iterator[Any]:
        """The same, with keys of any form."""
        try:
            yield from S3Requests(self._access).listed(prefix)
        except client_errors() as error:
            raise self._error(error) from None

    def open(self, key: str, item: SourceItem) -> OpenItem:
        try:
            data, found = read_again(lambda: self._get(key))
        except FileNotFoundError:
            raise SourceReadError(f"{item.path}: vanished before it was read") from None
        except client_errors() as error:
            raise self._reading_error(item, error) from None
        return OpenItem(data, make_item(item.path, found))

    def put(self, key: str, data: bytes) -> None:
        try:
            self._store.put(key, data)
        except client_errors() as error:
            raise self._error(error) from None

    def delete(self, key: str) -> None:
        try:
            self._store.delete(key)
        except FileNotFoundError:
            return  # somebody else was faster; S3 does not say so
        except client_errors() as error:
            raise self._error(error) from None

    def _reading_error(self, item: SourceItem, error: Exception) -> Exception:
        failure = failure_of(error)
        if failure is None:
            return error
        if failure.transient:
            return StoreUnreachableError(f"{self._where}: {self.address}: {item.path}: {failure.text}")
        return SourceReadError(f"{item.path}: cannot be read: {failure.text}")

    def _get(self, key: str) -> tuple[BinaryIO, Any]:
        if not _is_plain(key):
            data, found = S3Requests(self._access).read(key)
            return BytesIO(data), found
        answer = self._store.get(key)
        if answer.meta["size"] <= _BYTES_IN_MEMORY:
            return BytesIO(bytes(answer.bytes())), answer.meta
        return _copied(answer), answer.meta

    def _error(self, error: Exception) -> Exception:
        failure = failure_of(error)
        if failure is None:
            return error
        message = f"{self._where}: {self.address}: {failure.text}"
        return StoreUnreachableError(message) if failure.transient else SourceError(message)


class _RefusedKeyError(Exception):
    """A listing holds a key that obstore does not take. Never leaves this module."""


def _is_plain(key: str) -> bool:
    """Whether obstore takes a key: no part of it is empty or dots, and no character a control character of ASCII."""
    return not _CONTROL.search(key) and not any(part in ("", ".", "..") for part in key.split("/"))


def _copied(answer: Any) -> BinaryIO:
    copy = tempfile.TemporaryFile()  # noqa: SIM115 (whoever reads it closes it)
    try:
        for piece in answer.stream(_STREAMED_BYTES):
            copy.write(piece)
        copy.seek(0)
    except BaseException:
        copy.close()
        raise
    return copy


class BucketObject:
    """A source that is one object; its item's path is the last part of the key."""

    one_item = True
    reads_ahead = False

    def __init__(self, objects: _Objects) -> None:
        self._objects = objects
        self._name = objects.address.key.rpartition("/")[2]

    def items(self) -> Iterator[SourceItem]:
        found = self._objects.found(self._objects.address.key)
        if found is not None:
            yield make_item(self._name, found)

    def open(self, item: SourceItem) -> OpenItem:
        return self._objects.open(self.key_of(item.path), item)

    def key_of(self, path: str) -> str:
        return self._objects.address.key


class BucketFolder:
    """All objects below a prefix. What stores show as empty folders is left out."""

    one_item = False
    reads_ahead = True

    def __init__(self, objects: _Objects, *, hidden: bool) -> None:
        self._objects = objects
        self._hidden = hidden
        self._prefix = f"{objects.address.key}/" if objects.address.key else ""

    def items(self) -> Iterator[SourceItem]:
        try:
            yield from self._items(self._objects.listed(self._prefix))
        except _RefusedKeyError:
            yield from self._items(self._objects.listed_by_request(self._prefix))

    def open(self, item: SourceItem) -> OpenItem:
        return self._objects.open(self.key_of(item.path), item)

    def key_of(self, path: str) -> str:
        return self._prefix + path

    def _items(self, listed: Iterator[Any]) -> list[SourceItem]:
        items: list[SourceItem] = []
        empty: dict[str, Any] = {}
        folders: set[str] = set()
        start = len(self._prefix)
        for found in listed:
            path = found["path"][start:]
            if not path or (not self._hidden and (path.startswith(".") or "/." in path)):
                continue
            folder = path.rpartition("/")[0]
            while folder and folder not in folders:
                folders.add(folder)
                folder = folder.rpartition("/")[0]
            if found["size"]:
                items.append(make_item(path, found))
            else:
                empty[path] = found
        # obstore leaves out the slash at the end of a folder's key.
        documents = {path: found for path, found in empty.items() if path not in folders and not path.endswith("/")}
        return items + [
            make_item(path, found)
            for path, found in documents.items()
            if self._objects.is_object(self._prefix + path) or not _is_plain(path)
        ]


def make_item(path: str, found: Any) -> SourceItem:
    """An item from what obstore says of an object, the same from a listing and from the answer for the object itself.

    Azure's listings leave out an etag's quotes; Google's and MinIO's give fractions of a second, which no header has.
    """
    e_tag = found["e_tag"]
    if e_tag is not None and not e_tag.endswith('"'):
        e_tag = f'"{e_tag}"'
    return SourceItem(
        path=path,
        size=found["size"],
        modified_at=found["last_modified"].replace(microsecond=0),
        etag=e_tag,
        etag_is_exact=e_tag is not None,
    )
