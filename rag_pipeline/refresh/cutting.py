"""Cuts one document as its corpus says, and sees that the embedders take every chunk whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rag_pipeline.chunking import chunk_document
from rag_pipeline.contracts import Chunk, Parsed
from rag_pipeline.embedding import Embedder
from rag_pipeline.errors import ConfigError
from rag_pipeline.refresh.context import SMALLEST_CHUNK, RefreshContext
from rag_pipeline.refresh.context_lines import ContextWriter, CutDocument
from rag_pipeline.refresh.document_rows import Row, parsed_of


class _Excess(NamedTuple):
    chunk: Chunk
    tokens: int
    most: int
    embedder: Embedder


def cut_documents(context: RefreshContext, rows: Sequence[Row], writer: ContextWriter | None) -> list[CutDocument]:
    """The chunks of some rows of the documents table, under the lines that the writer has for them.

    Raises:
        ConfigError: see `cut_document`.
        RagPipelineError: see `ContextWriter.apply`.
    """
    documents = []
    for row in rows:
        parsed = parsed_of(row)
        documents.append(CutDocument(row["document_id"], parsed, cut_document(context, row["document_id"], parsed)))
    return documents if writer is None else writer.apply(documents)


def cut_document(context: RefreshContext, document_id: str, parsed: Parsed) -> list[Chunk]:
    """The chunks of a document.

    Where no size is configured, a document whose long titles leave too little room is cut into smaller chunks.

    Raises:
        ConfigError: a chunk is longer than an embedder takes; the message names it.
    """
    config = context.chunking
    while True:
        chunks = chunk_document(parsed, config, context.tokenizer, context.sentence_embedder)
        excess = _longest_excess(context, chunks)
        if excess is None:
            return chunks
        size = config.size - (excess.tokens - excess.most)
        if "size" in context.corpus.chunking.model_fields_set or size < SMALLEST_CHUNK:
            raise ConfigError(
                f"{context.corpus.file}: chunking.size: document {document_id!r}, characters {excess.chunk.start} to "
                f"{excess.chunk.end}: {excess.tokens} tokens with the context line {excess.chunk.context!r}, and "
                f"{excess.embedder.identity} takes {excess.most}. Set chunking.size to at most {max(size, SMALLEST_CHUNK)}"
            )
        config = config.limited_to(size)


def _longest_excess(context: RefreshContext, chunks: list[Chunk]) -> _Excess | None:
    worst: _Excess | None = None
    for embedder in context.embedders:
        if embedder.max_tokens is None or not chunks:
            continue
        counts = embedder.tokenizer.count([chunk.indexed_text for chunk in chunks])
        place = int(counts.argmax())
        tokens, most = int(counts[place]), embedder.max_tokens
        if tokens > most and (worst is None or tokens - most > worst.tokens - worst.most):
            worst = _Excess(chunks[place], tokens, most, embedder)
    return worst
