"""What chunks carry of their document's metadata: all of it as JSON, and what is declared as typed columns."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa

from rag_pipeline.config import MetadataType
from rag_pipeline.hashing import canonical_json
from rag_pipeline.index.vector_table import ARROW_TYPES

_TRUE, _FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})

_MOST_CARRIED = 20_000
"""Characters of JSON: a record may hold a page of HTML beside its text, and each of its chunks would carry that."""


def carried(metadata: str) -> str:
    """A document's metadata as its chunks carry it, JSON in and out: without its longest fields where it is too long."""
    if len(metadata) <= _MOST_CARRIED:
        return metadata
    fields = json.loads(metadata)
    lengths = {name: len(canonical_json({name: value})) for name, value in fields.items()}
    total = sum(lengths.values())
    for name in sorted(lengths, key=lambda name: (-lengths[name], name)):
        if total <= _MOST_CARRIED:
            break
        del fields[name]
        total -= lengths[name]
    return canonical_json(fields)


def typed_column(values: Sequence[Any], kind: MetadataType) -> pa.Array:
    """Metadata values as an Arrow column of the declared type.

    A value that cannot be one of that type becomes null, which `IS NULL` finds; as written it stays in the JSON
    metadata that hits show.
    """
    return pa.array([_CONVERTERS[kind](value) for value in values], ARROW_TYPES[kind])


def _string(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ", ".join(text for text in map(_string, value) if text is not None)
    return str(value)


def _int(value: Any) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d{1,19}\s*", value):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        whole = value
    elif (number := _float(value)) is not None and number.is_integer():
        whole = int(number)
    else:
        return None
    return whole if -(2**63) <= whole < 2**63 else None


def _float(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if number - number == 0 else None


def _bool(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    return True if text in _TRUE else False if text in _FALSE else None


def _timestamp(value: Any) -> datetime | None:
    """ISO 8601 dates and times; without a zone they are taken as UTC. Numbers are seconds since 1970."""
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, timezone.utc)
        if not isinstance(value, str):
            return None
        text = value.strip()
        # Python 3.10 reads neither a final Z nor a fraction of other than three or six digits.
        text = re.sub(r"[zZ]$", "+00:00", text)
        text = re.sub(r"\.(\d{1,6})\d*", lambda match: "." + match.group(1).ljust(6, "0"), text)
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)


_CONVERTERS = {"string": _string, "int": _int, "float": _float, "bool": _bool, "timestamp": _timestamp}
