"""How good the answers are that a chat model gives from what a search finds, judged by RAGAS through LiteLLM."""

from rag_pipeline.evaluation.generation.evaluate import chosen_settings, evaluate_generation
from rag_pipeline.evaluation.generation.results import GenerationEvaluation, MetricMean, ModelUsage, QueryGeneration

__all__ = [
    "GenerationEvaluation",
    "MetricMean",
    "ModelUsage",
    "QueryGeneration",
    "chosen_settings",
    "evaluate_generation",
]
