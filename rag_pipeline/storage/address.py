"""Addresses in buckets: ``s3://bucket/prefix``, ``gs://bucket/prefix``, ``az://container/prefix``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast

Scheme: TypeAlias = Literal["s3", "gs", "az"]

_SCHEMES = {"s3": "s3", "s3a": "s3", "gs": "gs", "az": "az", "abfs": "az", "abfss": "az"}


@dataclass(frozen=True, order=True)
class BucketAddress:
    """A bucket and a key in it, or a prefix of keys. The key is as it is stored, never percent-encoded, and has no ``/``
    at its end."""

    scheme: Scheme
    bucket: str
    key: str = ""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}" + (f"/{self.key}" if self.key else "")

    def __truediv__(self, name: str) -> BucketAddress:
        return replace(self, key=f"{self.key}/{name}" if self.key else name)


def is_address(text: str) -> bool:
    """Whether a text is meant as an address in a bucket, and not as a path of this machine."""
    return "://" in text


def parse_address(text: str) -> BucketAddress:
    """Read an address. What follows the bucket is taken as it is: a key may hold ``%20``, ``?`` and ``#``.

    Raises:
        ValueError: it is none; the message says what was expected, and never repeats a password.
    """
    scheme, _, rest = text.partition("://")
    expected = "expected s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"
    if scheme.lower() not in _SCHEMES:
        raise ValueError(f"{expected}, got {scheme}://")
    bucket, _, key = rest.partition("/")
    if "@" in bucket or ":" in bucket:
        raise ValueError(f"{expected}, without user, password, account or port: keys belong into the environment")
    if not bucket or any(character.isspace() or character in "?#" for character in bucket):
        raise ValueError(f"{expected}, got no bucket that can be read")
    key = key[:-1] if key.endswith("/") else key
    if key and any(part in ("", ".", "..") for part in key.split("/")):
        raise ValueError(f"{expected}, whose parts are neither empty nor dots, got {key!r}")
    return BucketAddress(cast(Scheme, _SCHEMES[scheme.lower()]), bucket, key)
