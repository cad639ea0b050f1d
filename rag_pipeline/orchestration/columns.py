"""The columns of a corpus's tables and where they come from, as the Dagster UI shows them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import dagster as dg
import pyarrow as pa

from rag_pipeline.config import CorpusConfig, MetadataType
from rag_pipeline.contracts import EmbedderIdentity
from rag_pipeline.index.vector_table import CHUNK_COLUMNS, DOCUMENT_COLUMNS, HASH_COLUMNS, PARENT_COLUMNS, plain_columns
from rag_pipeline.orchestration import names
from rag_pipeline.orchestration.keys import CorpusKeys
from rag_pipeline.refresh.chunks import CHUNKS_SCHEMA, PARENTS_SCHEMA
from rag_pipeline.refresh.document_rows import DOCUMENTS_SCHEMA

_DESCRIPTIONS = {
    "document_id": "The document: its path, or the id of its row",
    "chunk_id": "The chunk: a hash of its document and its indexed text",
    "path": "The item of the source that the document was read from",
    "source": "The path, for rows followed by # and the id",
    "status": "ok; stale: an earlier version is kept; failed: it could never be read",
    "reason": "Why the present version could not be read",
    "text": "The text as it stands in the document",
    "context": "The line above the text under which it is embedded and indexed: title and headings",
    "heading_path": "The headings above the chunk",
    "metadata": "What the document says of itself, as JSON",
    "parent_text": "The larger span that hits show, beside its first chunk alone",
    "vector": "The embedding, normalised to length 1",
    "content_hash": "SHA-256 of what is embedded and indexed",
    "text_hash": "SHA-256 of the text alone",
    "row_key": "A hash of all that the row was made from",
}

_CHUNK_SOURCES = {
    "chunk_id": ("document_id", "title", "text", "structure"),
    "document_id": ("document_id",),
    "position": ("text", "structure"),
    "start": ("text", "structure"),
    "end": ("text", "structure"),
    "text": ("text",),
    "context": ("title", "structure"),
    "heading_path": ("structure",),
    "page": ("structure",),
    "content_hash": ("title", "text", "structure"),
    "text_hash": ("text",),
    "chunk_key": ("layout_hash",),
}
"""For each column of the chunks, the columns of the documents that it is made from."""


def column_schema(corpus: CorpusConfig, stage: str, identity: EmbedderIdentity | None = None) -> dg.TableSchema | None:
    """The columns of the table that a stage makes, or None when it makes none. The width of vectors needs the identity."""
    if stage == names.DOCUMENTS:
        return _table_schema(DOCUMENTS_SCHEMA)
    if stage == names.CHUNKS:
        return _table_schema(PARENTS_SCHEMA if _has_parents(corpus) else CHUNKS_SCHEMA)
    if stage == names.VECTOR_TABLE:
        dimensions = identity.dimensions if identity else None
        return _vector_table_schema(tuple(corpus.metadata.items()), _has_parents(corpus), dimensions)
    return None


def column_lineage(corpus: CorpusConfig, keys: CorpusKeys, stage: str) -> dg.TableColumnLineage | None:
    """For each column of a table, the columns of the tables before it that it is made from."""
    documents, chunks = keys.key(names.DOCUMENTS), keys.key(names.CHUNKS)
    parents = tuple(PARENT_COLUMNS) if _has_parents(corpus) else ()
    if stage == names.CHUNKS:
        sources = {**_CHUNK_SOURCES, **dict.fromkeys(parents, ("text", "structure"))}
        return dg.TableColumnLineage({name: _deps(documents, columns) for name, columns in sources.items()})
    if stage != names.VECTOR_TABLE:
        return None
    lineage = {name: _deps(chunks, (name,)) for name in (*CHUNK_COLUMNS, *HASH_COLUMNS, *parents)}
    lineage |= {name: _deps(documents, (name,)) for name in (*DOCUMENT_COLUMNS, "metadata")}
    lineage |= {name: _deps(documents, ("metadata",)) for name in corpus.metadata}
    lineage["vector"] = _deps(chunks, ("context", "text"))
    lineage["row_key"] = [*_deps(documents, ("document_hash",)), *_deps(chunks, ("chunk_key",))]
    return dg.TableColumnLineage(lineage)


def _has_parents(corpus: CorpusConfig) -> bool:
    return corpus.chunking.strategy == "parent-child"


def _deps(asset: dg.AssetKey, columns: tuple[str, ...]) -> list[dg.TableColumnDep]:
    return [dg.TableColumnDep(asset_key=asset, column_name=column) for column in columns]


@cache
def _vector_table_schema(
    metadata: tuple[tuple[str, MetadataType], ...], parents: bool, dimensions: int | None
) -> dg.TableSchema:
    types = {name: str(kind) for name, kind in plain_columns(dict(metadata), parents).items()}
    width = "" if dimensions is None else f"[{dimensions}]"
    return _columns({**types, "vector": f"fixed_size_list<float>{width}"})


@cache
def _table_schema(schema: pa.Schema) -> dg.TableSchema:
    return _columns({field.name: str(field.type) for field in schema})


def _columns(types: Mapping[str, str]) -> dg.TableSchema:
    return dg.TableSchema(
        columns=[dg.TableColumn(name, kind, description=_DESCRIPTIONS.get(name)) for name, kind in types.items()]
    )
