"""ZIP containers of documents, read within bounds; nothing in them is followed further."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable
from xml.etree import ElementTree

from rag_pipeline.errors import ParseError

_MOST_MEMBERS = 50_000
_MOST_BYTES = 512 * 1024**2
_MOST_BYTES_OF_MEMBER = 256 * 1024**2
_HARMLESS_BYTES = 16 * 1024**2
_HIGHEST_RATIO = 200
"""Deflate reaches about 1,000; XML of documents seldom more than 50."""

ARCHIVE_ERRORS = (zipfile.BadZipFile, OSError, ValueError, RuntimeError, NotImplementedError, EOFError, zlib.error)
"""What `zipfile` raises on damaged archives; NotImplementedError is for methods of compression that it does not know."""


class DamagedMemberError(ParseError):
    """One member cannot be unpacked; others may."""


class Archive:
    """A ZIP container whose members are read as far as they may be.

    Raises:
        ParseError: it is damaged, or would unpack to more than any document needs.
    """

    def __init__(self, data: bytes) -> None:
        try:
            self._file = zipfile.ZipFile(io.BytesIO(data))
        except ARCHIVE_ERRORS as error:
            raise ParseError(f"damaged or truncated: its ZIP container cannot be opened ({error})") from error
        members = self._file.infolist()
        if len(members) > _MOST_MEMBERS:
            raise ParseError(f"zip bomb: {len(members):,} members in one document")
        if sum(member.file_size for member in members) > 8 * _MOST_BYTES:
            raise ParseError("zip bomb: it would unpack to more than 4 GB")
        self.names = {member.filename: member for member in members}
        self._left = _MOST_BYTES

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def read(self, name: str) -> bytes:
        """One member, unpacked.

        Raises:
            ParseError: it is not there, damaged, encrypted, or a bomb.
        """
        member = self.names.get(name)
        if member is None:
            raise ParseError(f"damaged: {name} is missing from it")
        most = min(self._left, _MOST_BYTES_OF_MEMBER, max(_HARMLESS_BYTES, _HIGHEST_RATIO * member.compress_size))
        try:
            with self._file.open(member) as file:
                data = file.read(most + 1)
        except ARCHIVE_ERRORS as error:
            raise DamagedMemberError(f"damaged or truncated: {name} cannot be unpacked ({error})") from error
        if len(data) > most:
            raise ParseError(f"zip bomb: {name} unpacks to more than {most // 1024**2} MB")
        self._left -= len(data)
        return data

    def xml(self, name: str) -> ElementTree.Element:
        """One member as a tree of XML. External entities are not loaded, and expat bounds the others.

        Raises:
            ParseError: it is not there, or no XML.
        """
        data = self.read(name)
        try:
            return ElementTree.fromstring(data)
        except (ElementTree.ParseError, ValueError, LookupError) as error:
            raise ParseError(f"damaged: {name} is no XML ({error})") from error

    def copy(self, wanted: Callable[[str], bool], changed: Callable[[str, bytes], bytes]) -> tuple[bytes, list[str]]:
        """A container with the same members, each read within bounds and changed; those not wanted are left empty.

        Returns:
            It, and the names of wanted members that are left empty, too, because they cannot be unpacked.
        """
        buffer = io.BytesIO()
        damaged: list[str] = []
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as copy:
            for name, member in self.names.items():
                if member.is_dir():
                    continue
                data = b""
                try:
                    data = changed(name, self.read(name)) if wanted(name) else b""
                except DamagedMemberError:
                    damaged.append(name)
                copy.writestr(name, data)
        return buffer.getvalue(), damaged
