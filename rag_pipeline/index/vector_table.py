"""The vector table: one row a chunk, with its text, what filters may name, and its vector. Readers open nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from rag_pipeline.config import FILTER_COLUMNS, MetadataType
from rag_pipeline.contracts import EmbedderIdentity
from rag_pipeline.hashing import value_hash

VECTOR_TABLE_VERSION = "1"
"""Raised when the columns below change, so that tables are rebuilt."""

LAYOUT_KEY = b"rag_pipeline.layout"
IDENTITY_KEY = b"rag_pipeline.identity"

ARROW_TYPES: dict[MetadataType, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
}

CHUNK_COLUMNS = ("chunk_id", "document_id", "position", "start", "end", "text", "context", "heading_path", "page")
HASH_COLUMNS = ("content_hash", "text_hash")
DOCUMENT_COLUMNS = ("path", "source", "title", "media_type", "modified_at")

_COLUMNS: dict[str, pa.DataType] = {
    "chunk_id": pa.string(),
    "document_id": pa.string(),
    "position": pa.int32(),
    "start": pa.int64(),
    "end": pa.int64(),
    "text": pa.large_utf8(),
    "context": pa.string(),
    "heading_path": pa.string(),
    "page": pa.int32(),
    "content_hash": pa.string(),
    "text_hash": pa.string(),
    "path": pa.string(),
    "source": pa.string(),
    "title": pa.string(),
    "media_type": pa.string(),
    "modified_at": pa.timestamp("us", "UTC"),
    "metadata": pa.large_utf8(),
    "row_key": pa.string(),
}


PARENT_COLUMNS: dict[str, pa.DataType] = {
    "parent_position": pa.int32(),
    "parent_start": pa.int64(),
    "parent_end": pa.int64(),
    "parent_hash": pa.string(),
    "parent_text": pa.large_utf8(),
}
"""Of tables whose chunks have parents, the larger spans that hits show, and of no others.

``parent_position`` is the position of the parent's first chunk, whose row alone holds the parent's text; ``parent_hash`` is
the hash of that text.
"""


def plain_columns(metadata: Mapping[str, MetadataType], parents: bool = False) -> dict[str, pa.DataType]:
    """All columns but the vector, whose width the embedder decides."""
    declared = {name: ARROW_TYPES[kind] for name, kind in metadata.items()}
    return {**_COLUMNS, **(PARENT_COLUMNS if parents else {}), **declared}


def vector_schema(identity: EmbedderIdentity, metadata: Mapping[str, MetadataType], parents: bool = False) -> pa.Schema:
    """The schema of a corpus's vector table; with ``parents`` the one for chunks that have parents.

    ``row_key`` is the hash over everything that a document's rows were made from. The schema's own metadata names the
    layout and the embedder identity: vectors of two identities never lie in one table.
    """
    fields = plain_columns(metadata, parents).items()
    layout = [VECTOR_TABLE_VERSION, identity.key, dict(metadata), *(["parents"] if parents else [])]
    return pa.schema(
        [*fields, ("vector", pa.list_(pa.float32(), identity.dimensions))],
        metadata={
            LAYOUT_KEY: value_hash(layout).encode(),
            IDENTITY_KEY: identity.model_dump_json().encode(),
        },
    )


def has_parents(table: Any) -> bool:
    """Whether the chunks of a table, the chunks table or a vector table, have parents."""
    return "parent_hash" in table.schema.names


def same_layout(table: Any, schema: pa.Schema) -> bool:
    """Whether a table was made with this schema: same columns, same embedder identity."""
    stored = table.schema.metadata or {}
    return bool(stored.get(LAYOUT_KEY) == schema.metadata[LAYOUT_KEY])


def same_identity(table: Any, identity: EmbedderIdentity) -> bool:
    """Whether a table holds vectors of this embedder."""
    stored = table.schema.metadata or {}
    return bool(stored.get(IDENTITY_KEY) == identity.model_dump_json().encode())


def identity_of(table: Any) -> EmbedderIdentity | None:
    """The embedder whose vectors a table holds; None where it does not say."""
    stored = (table.schema.metadata or {}).get(IDENTITY_KEY)
    return EmbedderIdentity.model_validate_json(stored) if stored else None


def filter_columns(schema: pa.Schema) -> list[str]:
    """The columns that a filter may name: the common ones and the corpus's declared metadata."""
    internal = {*_COLUMNS, *PARENT_COLUMNS, "vector"}
    return [*FILTER_COLUMNS, *(name for name in schema.names if name not in internal)]
