"""`lexical` and `retrieval`: how text becomes terms, and how searches rank."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import Field, SerializerFunctionWrapHandler, ValidationInfo, field_validator, model_serializer, model_validator
from typing_extensions import Self

from rag_pipeline.config.addresses import plain_address
from rag_pipeline.config.strict import Strict


class LexicalConfig(Strict):
    """How text becomes terms, and which BM25 scores them. ``auto`` is resolved to another language by the corpus's text."""

    language: Literal[
        "auto", "none", "arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch", "english", "esperanto",
        "estonian", "finnish", "french", "german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian",
        "lithuanian", "nepali", "norwegian", "persian", "polish", "portuguese", "romanian", "russian", "serbian", "sesotho",
        "spanish", "swedish", "tamil", "turkish", "yiddish",
    ] = "auto"  # fmt: skip
    variant: Literal["lucene", "okapi", "l", "plus"] = "lucene"
    k1: float = Field(default=1.5, gt=0, le=10)
    b: float = Field(default=0.75, ge=0, le=1)


RerankerName: TypeAlias = Literal["none", "cross-encoder", "late-interaction", "litellm", "llm"]
HOSTED_RERANKERS = frozenset({"litellm", "llm"})
"""Rerankers that are asked over a network, through LiteLLM. They have no default model."""


BM25_WEIGHTS = {"static": 0.65, "hash": 0.85}
BM25_WEIGHT_OF_MODELS = 0.45
"""The share of BM25 under ``auto`` by who makes the vectors, measured (docs/adr/0020-fusion-auto.md): the better they tell
what a text is about, the more they count."""
CONVEX_BM25_WEIGHT = 0.7


class RetrievalConfig(Strict):
    """How the two arms of a hybrid search become one list, and what ranks its best anew.

    ``convex`` sums normalised scores, ``bm25_weight`` (0.7 where it is None) for BM25 and the rest for vectors. ``auto``
    fits the weight to each query, starting from one that measured well for the kind of embedder, or that the corpus's own
    query set has chosen. ``rrf`` sums reciprocal ranks; ``rrf_k`` is the constant of Cormack et al., SIGIR 2009.

    ``rerank`` names the reranker of hybrid searches, which sees the best ``rerank_candidates``; ``rerank_weight`` is its
    share of the score that ranks them, the rest is fusion's. With ``rerank_on_failure: fused`` a reranker that fails
    leaves fusion's order, with a warning. See docs/reranking.md.
    """

    fusion: Literal["auto", "convex", "rrf"] = "auto"
    bm25_weight: float | None = Field(default=None, ge=0, le=1)
    rrf_k: int = Field(default=60, ge=1)
    rerank: RerankerName = "none"
    rerank_model: str | None = Field(default=None, min_length=1)
    rerank_provider: Literal["sentence-transformers", "local"] = "sentence-transformers"
    rerank_revision: str | None = Field(default=None, min_length=1)
    rerank_candidates: int = Field(default=50, ge=1, le=1000)
    rerank_weight: float | None = Field(default=None, gt=0, le=1)
    rerank_batch_size: int | None = Field(default=None, ge=1, le=1000)
    rerank_api_base: str | None = None
    rerank_timeout_seconds: float = Field(default=30, gt=0)
    rerank_on_failure: Literal["error", "fused"] = "error"

    def for_embedder(self, provider: str) -> RetrievalConfig:
        """The same with the weight that holds for vectors of a provider where none was named."""
        if self.bm25_weight is not None:
            return self
        default = BM25_WEIGHTS.get(provider, BM25_WEIGHT_OF_MODELS) if self.fusion == "auto" else CONVEX_BM25_WEIGHT
        return self.model_copy(update={"bm25_weight": default})

    @field_validator("rerank_model")
    @classmethod
    def _reranker_has_models(cls, model: str | None, others: ValidationInfo) -> str | None:
        name = others.data.get("rerank")
        if model is not None and name in ("none", "late-interaction"):
            raise ValueError(f"expected with rerank: cross-encoder, litellm or llm, not with {name}")
        return model

    @field_validator("rerank_provider", "rerank_revision")
    @classmethod
    def _reranker_is_local(cls, value: str | None, others: ValidationInfo) -> str | None:
        if value not in (None, "sentence-transformers") and others.data.get("rerank") not in (None, "cross-encoder"):
            raise ValueError("expected with rerank: cross-encoder only")
        return value

    @field_validator("rerank_api_base")
    @classmethod
    def _reranker_is_hosted(cls, address: str | None, others: ValidationInfo) -> str | None:
        if address is not None and others.data.get("rerank") not in (None, *HOSTED_RERANKERS):
            raise ValueError("expected with rerank: litellm or llm only")
        return plain_address(address)

    @model_validator(mode="after")
    def _hosted_reranker_needs_a_model(self) -> Self:
        if self.rerank in HOSTED_RERANKERS and self.rerank_model is None:
            example = "cohere/rerank-v3.5" if self.rerank == "litellm" else "openai/gpt-4o-mini"
            raise ValueError(f"expected rerank_model with rerank: {self.rerank}, such as '{example}'")
        return self

    @model_serializer(mode="wrap")
    def _without_unused_reranking(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What is said of reranking, and no default of it: manifests of corpora without it hold no word of it."""
        fields = type(self).model_fields
        values: dict[str, Any] = serialise(self)
        return {
            name: value
            for name, value in values.items()
            if not name.startswith("rerank") or getattr(self, name) != fields[name].default
        }
