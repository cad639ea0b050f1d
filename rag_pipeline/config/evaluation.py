"""`evaluation`: how candidates are measured, and when they are refused."""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator
from typing_extensions import Self

from rag_pipeline.config.addresses import plain_address
from rag_pipeline.config.strict import Strict

METRICS = ("ndcg", "recall", "precision", "mrr", "map")
"""What a ranking is measured by; a metric's name is one of these, `@`, and how many documents it looks at."""
EVALUATED_DOCUMENTS = 100
"""How many documents of a ranking are looked at."""


def _check_metric(name: str) -> str:
    match = re.fullmatch(rf"({'|'.join(METRICS)})@([1-9][0-9]*)", name)
    if match is None or int(match.group(2)) > EVALUATED_DOCUMENTS:
        names = ", ".join(f"{metric}@K" for metric in METRICS)
        raise ValueError(f"{name!r}: expected one of {names} with K from 1 to {EVALUATED_DOCUMENTS}, such as ndcg@10")
    return name


MetricName: TypeAlias = Annotated[str, AfterValidator(_check_metric)]
GateValue: TypeAlias = Annotated[float, Field(ge=0, le=1)]


ApiBase: TypeAlias = Annotated[str | None, AfterValidator(plain_address)]


class GenerationConfig(Strict):
    """What `evaluate --generation` asks, by LiteLLM's names; see docs/generation.md.

    ``model`` answers each query from the best ``top_k`` chunks, ``judge_model`` (by default the same one) judges answers
    and chunks. ``concurrency`` is how many requests each may have at once.
    """

    model: str | None = Field(default=None, min_length=1)
    judge_model: str | None = Field(default=None, min_length=1)
    api_base: ApiBase = None
    judge_api_base: ApiBase = None
    top_k: int = Field(default=5, ge=1, le=100)
    concurrency: int = Field(default=4, ge=1, le=64)
    timeout_seconds: float = Field(default=120, gt=0)


class EvaluationConfig(Strict):
    """How a candidate is measured before it is published, and when it is refused.

    ``queries`` and ``qrels`` are a query set in BEIR layout, relative to the folder of corpus.yaml; without them titles
    and headings are the queries. ``gates`` are the least means allowed. ``max_drop`` is how far the gated metrics
    (ndcg@10 without gates) may fall behind the snapshot that is served; None takes the default for the kind of queries.
    All of it holds for the search ``mode``. ``generation`` belongs to `evaluate --generation`, which gates nothing.
    """

    queries: str | None = Field(default=None, min_length=1)
    qrels: str | None = Field(default=None, min_length=1)
    gates: dict[MetricName, GateValue] = Field(default_factory=dict)
    max_drop: float | None = Field(default=None, ge=0, le=1)
    mode: Literal["hybrid", "vector", "bm25"] = "hybrid"
    generation: GenerationConfig = GenerationConfig()

    @model_validator(mode="after")
    def _one_file_needs_the_other(self) -> Self:
        if (self.queries is None) != (self.qrels is None):
            there, missing = ("queries", "qrels") if self.qrels is None else ("qrels", "queries")
            raise ValueError(f"expected {missing} beside {there}: both together are a query set")
        if self.gates and self.queries is None:
            raise ValueError("gates need a query set: expected queries and qrels beside them; max_drop works without")
        return self
