"""A file or folder in a bucket, used as a `pathlib.Path` is.

Only what a store needs of it is there. Writing is atomic: an object is the old one or the new one. A folder is there as
long as something lies in it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

from rag_pipeline.errors import StoreError, StoreUnreachableError
from rag_pipeline.storage.access import Access, resolve_access
from rag_pipeline.storage.address import BucketAddress, parse_address
from rag_pipeline.storage.cut_answers import Found, read_again
from rag_pipeline.storage.failures import bucket_is_missing, client_errors, failure_of

_STREAMED_BYTES = 1 << 20


class ObjectStatus(NamedTuple):
    """What is known of an object. ``e_tag`` changes with every change of the content."""

    st_size: int
    e_tag: str | None


class ObjectVersion(NamedTuple):
    """What a conditional write names: the etag, and where the store is Google's, the generation, which counts there."""

    e_tag: str | None
    version: str | None


class ObjectChangedError(Exception):
    """An object is not what a conditional write expected. Internal: the caller knows what it means."""


class ObjectPath:
    """A key of a bucket, as a file or as the prefix of what lies in a folder."""

    __slots__ = ("_access", "_is_file", "address", "modified_at")

    def __init__(
        self, address: BucketAddress, access: Access, is_file: bool | None = None, modified_at: datetime | None = None
    ) -> None:
        self.address = address
        self.modified_at = modified_at
        """When it was written, where a listing gave this path."""
        self._access = access
        self._is_file = is_file

    @classmethod
    def of(cls, text: str) -> ObjectPath:
        """A path from an address, reached as the environment says.

        Raises:
            ValueError: it is no address of a bucket.
            ConfigError: there are no credentials.
        """
        address = parse_address(text)
        return cls(address, resolve_access(address))

    @property
    def access(self) -> Access:
        """How this very address is reached."""
        return Access(self.address, self._access.config, self._access.credentials, self._access.profile)

    def __str__(self) -> str:
        return str(self.address)

    def __repr__(self) -> str:
        return f"ObjectPath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectPath) and self.address == other.address

    def __lt__(self, other: ObjectPath) -> bool:
        return self.address < other.address

    def __hash__(self) -> int:
        return hash(self.address)

    def __truediv__(self, name: str) -> ObjectPath:
        return ObjectPath(self.address / name, self._access)

    @property
    def parent(self) -> ObjectPath:
        key = self.address.key.rpartition("/")[0]
        return ObjectPath(BucketAddress(self.address.scheme, self.address.bucket, key), self._access)

    @property
    def name(self) -> str:
        return self.address.key.rpartition("/")[2]

    @property
    def stem(self) -> str:
        return Path(self.name).stem

    @property
    def suffix(self) -> str:
        return Path(self.name).suffix

    def is_file(self) -> bool:
        if self._is_file is not None:
            return self._is_file
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        if self._is_file is not None:
            return not self._is_file
        return self._read(lambda: any(len(batch) for batch in self._store.list(f"{self.address.key}/", chunk_size=1)))

    def exists(self) -> bool:
        return self.is_file() or self.is_dir()

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        """Nothing: a folder comes with the first file in it."""

    def stat(self) -> ObjectStatus:
        """
        Raises:
            FileNotFoundError: there is no such object.
        """
        with self._calling():
            found = self._store.head(self.address.key)
        return ObjectStatus(found["size"], found["e_tag"])

    def iterdir(self) -> Iterator[ObjectPath]:
        """Files and folders directly in this one."""
        found = self._read(lambda: self._store.list_with_delimiter(self.address.key or None))
        for one in found["objects"]:
            yield ObjectPath(self._at(one["path"]), self._access, is_file=True, modified_at=one["last_modified"])
        for prefix in found["common_prefixes"]:
            yield ObjectPath(self._at(prefix), self._access, is_file=False)

    def read_bytes(self) -> bytes:
        """
        Raises:
            FileNotFoundError: there is no such object.
        """
        return self.read_version()[0]

    def read_version(self) -> tuple[bytes, ObjectVersion]:
        """The content, and what names it.

        Raises:
            FileNotFoundError: there is no such object.
        """

        def read() -> tuple[bytes, ObjectVersion]:
            found = self._store.get(self.address.key)
            return bytes(found.bytes()), ObjectVersion(found.meta["e_tag"], found.meta["version"])

        return self._read(read)

    def open(self, mode: str = "rb") -> IO[bytes]:
        """A copy in a temporary file, which is gone when it is closed.

        Raises:
            FileNotFoundError: there is no such object.
        """
        copy = tempfile.TemporaryFile()  # noqa: SIM115 (whoever reads it closes it)
        try:
            self.download(copy)
            copy.seek(0)
        except BaseException:
            copy.close()
            raise
        return copy

    def download(self, file: Any) -> None:
        """Write the content into an open file, a piece at a time.

        Raises:
            FileNotFoundError: there is no such object.
        """
        start = file.tell()

        def read() -> None:
            file.seek(start)
            file.truncate()
            for piece in self._store.get(self.address.key).stream(_STREAMED_BYTES):
                file.write(piece)

        self._read(read)

    def write_bytes(self, data: bytes) -> None:
        with self._calling():
            self._store.put(self.address.key, data)

    def upload(self, file: Path) -> None:
        """Write the content of a file of this machine; a large one in parts, which appear together."""
        with self._calling():
            self._store.put(self.address.key, file)

    def create(self, data: bytes) -> None:
        """Write an object that must not be there yet.

        Raises:
            ObjectChangedError: it is there, with another content.
        """
        self._put_if(data, "create")

    def replace(self, data: bytes, version: ObjectVersion) -> None:
        """Write an object that must still be this version.

        Raises:
            ObjectChangedError: it is another one, or is gone.
            StoreError: the store has not named the version.
        """
        if version.e_tag is None:
            raise StoreError(f"{self}: the store names no etag, so that nothing can be published safely")
        self._put_if(data, {name: value for name, value in version._asdict().items() if value is not None})

    def unlink(self) -> None:
        """Delete the object. One that is not there is no fault: S3 does not say so."""
        with suppress(FileNotFoundError), self._calling():
            self._store.delete(self.address.key)

    def _read(self, read: Callable[[], Found]) -> Found:
        with self._calling():
            return read_again(read)

    def _put_if(self, data: bytes, mode: Any) -> None:
        try:
            with self._calling():
                self._store.put(self.address.key, data, mode=mode)
        except FileNotFoundError:
            raise ObjectChangedError(str(self)) from None
        except ObjectChangedError:
            # A try whose answer was lost may have written it: the second one finds its own content.
            try:
                written = self.read_bytes() == data
            except FileNotFoundError:
                written = False
            if not written:
                raise

    @property
    def _store(self) -> Any:
        return self._access.store

    def _at(self, key: str) -> BucketAddress:
        return BucketAddress(self.address.scheme, self.address.bucket, key)

    @contextmanager
    def _calling(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if bucket_is_missing(error):
                raise StoreError(f"{self}: there is no such bucket") from None
            raise FileNotFoundError(str(self)) from None
        except client_errors() as error:
            failure = failure_of(error)
            if failure is None:
                raise
            if failure.kind == "changed":
                raise ObjectChangedError(str(self)) from None
            kind = StoreUnreachableError if failure.transient else StoreError
            raise kind(f"{self}: {failure.text}") from None


StorePath: TypeAlias = "Path | ObjectPath"
"""A file or folder under a data root: of this machine or in a bucket."""


def total_size(folder: StorePath) -> int:
    """Bytes of all files below a folder."""
    if isinstance(folder, Path):
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    listed = f"{folder.address.key}/"

    def size() -> int:
        return sum(int(one["size"]) for batch in folder._store.list(listed, chunk_size=1000) for one in batch)

    return folder._read(size)
