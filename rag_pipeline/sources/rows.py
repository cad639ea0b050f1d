"""A row of a JSON Lines or Parquet file as the document it stands for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any
from uuid import UUID

import numpy as np

from rag_pipeline.config import CorpusConfig, FieldMapping

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_DROPPED = object()
_NAMED_FIELDS = 20


@dataclass(frozen=True, slots=True)
class Row:
    """One document of a row source, before its text is parsed.

    ``number`` counts lines (JSON Lines) or rows (Parquet) of the file from 1. ``metadata`` are all fields that are not
    mapped, as JSON values.
    """

    number: int
    document_id: str
    title: str | None
    text: str
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that is no document, and why. ``document_id`` is None where that is what is wrong."""

    number: int
    reason: str
    document_id: str | None = None


def field_mapping(corpus: CorpusConfig) -> FieldMapping:
    """The mapping that the corpus names, or the default one."""
    return corpus.source.fields or FieldMapping()


def make_row(values: Mapping[str, Any], number: int, corpus: CorpusConfig) -> Row | BadRow:
    """Judge the values of one row.

    Ids are kept as they are written: ``"001"`` and ``7`` become ``001`` and ``7``, and a float stays one (``7.0``).
    A title that is missing, null, NaN or blank is no title; a text that is so makes a BadRow.
    """
    mapping = field_mapping(corpus)
    identifier = _identifier(values.get(mapping.id))
    if identifier is None:
        return BadRow(number, _without(values, mapping.id, "id", "a string or a number", corpus))
    text = _text(values.get(mapping.text))
    if text is None:
        return BadRow(number, _without(values, mapping.text, "text", "a string", corpus), identifier)
    title = _title(values.get(mapping.title)) if mapping.title is not None else None
    mapped = {mapping.id, mapping.text, mapping.title}
    metadata = {}
    for name, value in values.items():
        converted = _DROPPED if name in mapped else json_value(value)
        if converted is not _DROPPED:
            metadata[_storable(str(name))] = converted
    return Row(number, identifier, title, text, metadata)


def json_value(value: Any) -> Any:
    """The value as JSON holds it: times as ISO 8601, NaN and infinity as None, decimals as int where
    they have no decimal places and as float otherwise.

    Bytes have no such form; the marker that stands for them is dropped from lists and objects too.
    """
    match value:
        case None | bool() | int():
            return value
        case str():
            return _storable(value)
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            pairs = ((_storable(str(key)), json_value(inner)) for key, inner in value.items())
            return {key: inner for key, inner in pairs if inner is not _DROPPED}
        case list() | tuple():
            return [inner for inner in map(json_value, value) if inner is not _DROPPED]
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Decimal():
            if not value.is_finite():
                return None
            exponent = value.as_tuple().exponent
            return int(value) if isinstance(exponent, int) and exponent >= 0 else float(value)
        case UUID():
            return str(value)
        case np.generic() | np.ndarray():
            return json_value(value.tolist())
        case _:
            return _DROPPED


def _identifier(value: Any) -> str | None:
    if isinstance(value, bytes):
        value = _decoded(value)
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if not isinstance(value, (str, int, float, Decimal, UUID)):
        return None
    identifier = _storable(str(value))
    return identifier if identifier.strip() else None


def _text(value: Any) -> str | None:
    text = _decoded(value) if isinstance(value, bytes) else value
    if not isinstance(text, str):
        return None
    text = _storable(text)
    return text if text.replace("\ufeff", "").strip() else None


def _title(value: Any) -> str | None:
    if isinstance(value, bytes):
        value = _decoded(value)
    if isinstance(value, bool) or not isinstance(value, (str, int, float, Decimal)):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return " ".join(_storable(str(value)).split()) or None


def _without(values: Mapping[str, Any], name: str, role: str, expected: str, corpus: CorpusConfig) -> str:
    if name not in values:
        there = ", ".join(map(repr, islice(values, _NAMED_FIELDS))) or "none"
        return f"no {role}: no field {name!r} (source.fields.{role} in {corpus.file}); the fields are {there}"
    value = values[name]
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return f"no {role}: field {name!r} is null"
    if isinstance(value, str):
        return f"no {role}: field {name!r} is blank"
    return f"no {role}: field {name!r} is {type(value).__name__}, expected {expected}"


def _decoded(value: bytes) -> str | None:
    """Text that an old writer stored as bytes."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _storable(text: str) -> str:
    """Without NULs, and with U+FFFD for lone surrogates, which no column of text can hold."""
    if text.isascii() and "\x00" not in text:
        return text
    return _UNSTORABLE.sub(lambda match: "" if match.group() == "\x00" else "\ufffd", text)
