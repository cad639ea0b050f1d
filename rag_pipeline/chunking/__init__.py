"""Documents to chunks."""

from rag_pipeline.chunking.recursive import CHUNKER_VERSION, chunk_document

__all__ = ["CHUNKER_VERSION", "chunk_document"]
