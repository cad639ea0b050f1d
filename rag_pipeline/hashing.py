"""Hashes that decide what is unchanged. SHA-256 throughout, over bytes that are the same on every machine."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def text_hash(text: str) -> str:
    """SHA-256 of a text as 64 hexadecimal digits. Lone surrogates, which UTF-8 cannot hold, are hashed as '?'."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def bytes_hash(data: bytes) -> str:
    """SHA-256 of bytes as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces, so that equal values give equal text."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def value_hash(value: Any) -> str:
    """SHA-256 of a JSON-like value, independent of the order of its keys."""
    return text_hash(canonical_json(value))
