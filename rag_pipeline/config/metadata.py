"""`metadata`: columns that a corpus adds to those that every corpus has."""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator

FILTER_COLUMNS = ("document_id", "path", "source", "title", "heading_path", "media_type", "modified_at", "page")
"""Columns of the vector table that every corpus has and that a filter may name."""
_STORE_COLUMNS = frozenset(
    {
        "chunk_id",
        "text",
        "context",
        "metadata",
        "vector",
        "position",
        "start",
        "end",
        "text_hash",
        "content_hash",
        "row_key",
        "parent_position",
        "parent_start",
        "parent_end",
        "parent_hash",
        "parent_text",
    }
)

MetadataType: TypeAlias = Literal["string", "int", "float", "bool", "timestamp"]


def _check_metadata_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"{name!r}: expected a name of letters, digits and underscores")
    if name.lower() in {taken.lower() for taken in (*FILTER_COLUMNS, *_STORE_COLUMNS)}:
        raise ValueError(f"{name!r}: every corpus has this column already; expected another name")
    return name


def _check_metadata_names(columns: dict[str, MetadataType]) -> dict[str, MetadataType]:
    seen: set[str] = set()
    for name in columns:
        if name.lower() in seen:
            raise ValueError(f"{name!r}: another name differs only in capitals, which filters cannot tell apart")
        seen.add(name.lower())
    return columns


MetadataName: TypeAlias = Annotated[str, AfterValidator(_check_metadata_name)]
