"""Addresses in buckets: ``s3://bucket/prefix``, ``gs://bucket/prefix``, ``az://container/prefix``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast

Scheme: TypeAlias = Literal["s3", "gs", "az"]

_SCHEMES = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "az": "az", "abfs": "az", "abfss": "az"}
_WEB_ADDRESSES = (
    (re.compile(r"(?P<account>[^./@:]+)\.(?:blob|dfs)\.core\.[a-z.]+/(?P<bucket>[^/]+)(?P<key>.*)"), "az"),
    (re.compile(r"storage\.(?:googleapis|cloud\.google)\.com/(?P<bucket>[^/]+)(?P<key>.*)"), "gs"),
    (re.compile(r"(?P<bucket>[^/@:]+)\.storage\.googleapis\.com(?P<key>.*)"), "gs"),
    (re.compile(r"s3[.-][a-z0-9.-]*amazonaws\.com/(?P<bucket>[^/]+)(?P<key>.*)"), "s3"),
    (re.compile(r"(?P<bucket>[^/@:]+)\.s3[.-][a-z0-9.-]*amazonaws\.com(?P<key>.*)"), "s3"),
)
"""What the consoles of the stores show, and users copy."""
_CONTAINER_AT_ACCOUNT = re.compile(r"(?P<bucket>[^./@:]+)@(?P<account>[^./@:]+)\.(?:blob|dfs)\.core\.[a-z.]+(?P<key>.*)")
"""As Hadoop writes addresses of Azure."""


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
    meant = _meant(scheme.lower(), rest)
    if meant is not None:
        raise ValueError(f"{expected}: write {meant}")
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


def _meant(scheme: str, rest: str) -> str | None:
    """An address of another form as it is to be written here; without what follows a question mark, which may be a key."""
    rest = rest.partition("?")[0]
    if scheme in ("https", "http"):
        found, store = next(((match, name) for form, name in _WEB_ADDRESSES if (match := form.fullmatch(rest))), (None, ""))
    else:
        found, store = _CONTAINER_AT_ACCOUNT.fullmatch(rest) or _WEB_ADDRESSES[0][0].fullmatch(rest), "az"
    if found is None:
        return None
    address = f"{store}://{found['bucket']}{found['key']}"
    if store != "az":
        return address
    return f"{address}, and name the account {found['account']} in AZURE_STORAGE_ACCOUNT_NAME or storage_options.account"
