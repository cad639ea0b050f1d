"""The stages that reconcile a corpus with its source, one module each, named as the assets. No Dagster."""

from collections.abc import Callable

from rag_pipeline.contracts import Contract
from rag_pipeline.refresh.bm25_index import refresh_bm25_index
from rag_pipeline.refresh.chunks import refresh_chunks
from rag_pipeline.refresh.context import RefreshContext
from rag_pipeline.refresh.documents import refresh_documents
from rag_pipeline.refresh.embeddings import refresh_embeddings
from rag_pipeline.refresh.evaluation import evaluate_candidate, refresh_evaluation
from rag_pipeline.refresh.overlap import check_apart
from rag_pipeline.refresh.progress import Lines, Reporter, Several, Silent
from rag_pipeline.refresh.snapshot import refresh_snapshot
from rag_pipeline.refresh.vector_table import refresh_vector_table

STAGES: dict[str, Callable[[RefreshContext], Contract]] = {
    "documents": refresh_documents,
    "chunks": refresh_chunks,
    "embeddings": refresh_embeddings,
    "vector_table": refresh_vector_table,
    "bm25_index": refresh_bm25_index,
    "evaluation": refresh_evaluation,
    "snapshot": refresh_snapshot,
}
"""The stages by the names of their assets, in an order in which each finds what it needs."""

__all__ = [
    "STAGES",
    "Lines",
    "RefreshContext",
    "Reporter",
    "Several",
    "Silent",
    "check_apart",
    "evaluate_candidate",
    "refresh_bm25_index",
    "refresh_chunks",
    "refresh_documents",
    "refresh_embeddings",
    "refresh_evaluation",
    "refresh_snapshot",
    "refresh_vector_table",
]
