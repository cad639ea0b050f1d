"""What an evaluation of generated answers gives."""

from __future__ import annotations

from pydantic import Field

from rag_pipeline.contracts import Contract

METRICS = ("faithfulness", "answer_relevancy", "context_precision", "context_recall", "context_utilization")
"""RAGAS's names. All are from 0 to 1 but `answer_relevancy`, a cosine, which may fall below 0."""


class MetricMean(Contract):
    """``mean`` is None where no query was judged by this metric; ``queries`` is how many were."""

    mean: float | None
    queries: int


class ModelUsage(Contract):
    """What a model was asked, requests that failed left out.

    ``cost_usd`` is by LiteLLM's price list, None where it knows no price or the provider did not count its tokens.
    """

    model: str
    requests: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None


class QueryGeneration(Contract):
    """One query: what was found, what was answered, how it was judged.

    ``contexts`` are the ids of the chunks the answer was given from, best first. ``scores`` are by metric. ``failures``
    tell by step why something is missing: `search`, `answer`, or a metric.
    """

    query_id: str
    text: str
    reference: str | None
    contexts: tuple[str, ...] = ()
    answer: str | None = None
    scores: dict[str, float] = Field(default_factory=dict)
    failures: dict[str, str] = Field(default_factory=dict)


class GenerationEvaluation(Contract):
    """The answers of one model from one snapshot. ``queries_available`` is how many the query set has.

    ``embedder`` compares questions for `answer_relevancy`: its figures compare only where it is the same.
    """

    corpus: str
    snapshot: int
    model: str
    judge_model: str
    embedder: str
    top_k: int
    queries_available: int
    results: tuple[QueryGeneration, ...]
    usage: tuple[ModelUsage, ...]

    @property
    def failed(self) -> tuple[QueryGeneration, ...]:
        """The queries of which something is missing."""
        return tuple(result for result in self.results if result.failures)

    def means(self) -> dict[str, MetricMean]:
        """The mean of each metric over the queries that have it, for the metrics that apply to any of them."""
        references = {result.reference is not None for result in self.results}
        names = [name for name in METRICS if any(name in metrics_for(known) for known in references)]
        return {name: self._mean(name) for name in names}

    def _mean(self, name: str) -> MetricMean:
        values = [result.scores[name] for result in self.results if name in result.scores]
        return MetricMean(mean=sum(values) / len(values) if values else None, queries=len(values))


def metrics_for(reference: bool) -> tuple[str, ...]:
    """The metrics by which a query is judged, with a reference answer or without one."""
    if reference:
        return ("faithfulness", "answer_relevancy", "context_precision", "context_recall")
    return ("faithfulness", "answer_relevancy", "context_utilization")
