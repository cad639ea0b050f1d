"""Query sets, the figures of a retriever on them, gates, and the comparison of two snapshots."""

from rag_pipeline.evaluation.comparison import SnapshotDifference, compare_snapshots
from rag_pipeline.evaluation.evaluate import Evaluation, evaluate, measured, summary
from rag_pipeline.evaluation.generation import GenerationEvaluation, chosen_settings, evaluate_generation
from rag_pipeline.evaluation.metrics import SHOWN_METRICS
from rag_pipeline.evaluation.query_set import QuerySet, load_query_set

__all__ = [
    "SHOWN_METRICS",
    "Evaluation",
    "GenerationEvaluation",
    "QuerySet",
    "SnapshotDifference",
    "chosen_settings",
    "compare_snapshots",
    "evaluate",
    "evaluate_generation",
    "load_query_set",
    "measured",
    "summary",
]
