"""Addresses of services, as corpus.yaml may name them."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def plain_address(address: str | None) -> str | None:
    """An address of a service as it was given, or None.

    Raises:
        ValueError: it is none, or holds a secret.
    """
    if address is None:
        return None
    expected = "expected an address such as 'http://127.0.0.1:8000/v1'"
    try:
        parts = urlsplit(address)
        port = parts.port
        if "[" in parts.netloc:
            ipaddress.IPv6Address((parts.hostname or "").partition("%")[0])
    except ValueError:
        raise ValueError(f"{expected}, or 'http://[::1]:8000/v1'; host or port cannot be read") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or any(map(str.isspace, address)):
        raise ValueError(expected)
    if "@" in parts.netloc or parts.query:
        raise ValueError("expected an address without user, password or query: a key belongs into the environment")
    return address
