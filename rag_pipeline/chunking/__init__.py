"""Documents to chunks."""

from rag_pipeline.chunking.document import CHUNKER_VERSION, chunk_document

__all__ = ["CHUNKER_VERSION", "chunk_document"]
