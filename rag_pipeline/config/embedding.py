"""`embedding` and `budget`: which models turn text into vectors, and what that may cost."""

from __future__ import annotations

import unicodedata
from typing import Any, Literal, TypeAlias

from pydantic import Field, ValidationInfo, field_validator, model_validator
from typing_extensions import Self

from rag_pipeline.config.addresses import plain_address
from rag_pipeline.config.strict import Strict

Provider: TypeAlias = Literal[
    "static", "hash", "local", "sentence-transformers", "voyage", "openai", "ollama", "litellm", "auto"
]
HOSTED_PROVIDERS = frozenset({"voyage", "openai", "ollama", "litellm"})
"""Providers that are asked over a network, all through LiteLLM."""

_HOSTED_KEYS = (
    "api_base", "query_model", "batch_tokens", "concurrency", "requests_per_minute", "tokens_per_minute", "timeout_seconds",
    "retry_seconds", "usd_per_million_tokens",
)  # fmt: skip


class EmbedderConfig(Strict):
    """One embedding model and how it is asked; see docs/providers/README.md.

    ``static`` and ``hash`` need no account, no network and no download. ``dimensions`` is asked of models that can give
    several widths. ``query_model`` embeds queries into the same space as ``model``. ``revision`` is for models that
    change behind their name: with another one everything is embedded anew. Prompts stand before each text; None takes
    those that the model's authors document.
    """

    provider: Provider = "static"
    model: str | None = Field(default=None, min_length=1)
    dimensions: int | None = Field(default=None, ge=1, le=8192)
    revision: str | None = Field(default=None, min_length=1)
    document_prompt: str | None = None
    query_prompt: str | None = None
    batch_size: int | None = Field(default=None, ge=1, le=4096)
    api_base: str | None = None
    query_model: str | None = Field(default=None, min_length=1)
    batch_tokens: int | None = Field(default=None, ge=1)
    concurrency: int = Field(default=4, ge=1, le=64)
    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    timeout_seconds: float = Field(default=60, gt=0)
    retry_seconds: float = Field(default=300, ge=0)
    usd_per_million_tokens: float | None = Field(default=None, ge=0)

    @field_validator("api_base")
    @classmethod
    def _api_base_is_a_plain_address(cls, address: str | None) -> str | None:
        return plain_address(address)

    @field_validator("model", "query_model", "revision", "api_base")
    @classmethod
    def _one_line_of_text(cls, value: str | None) -> str | None:
        if value is not None and any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in value):
            raise ValueError("expected one line of text without control characters")
        return value

    @field_validator("dimensions")
    @classmethod
    def _static_width_is_fixed(cls, dimensions: int | None, others: ValidationInfo) -> int | None:
        if others.data.get("provider") == "auto" and dimensions is not None:
            raise ValueError("expected with a provider that is named, since models differ in their widths")
        if others.data.get("provider") == "static" and dimensions not in (None, 256):
            raise ValueError(f"expected 256 or nothing for provider static, got {dimensions}")
        return dimensions

    @field_validator("model", "revision", "document_prompt", "query_prompt")
    @classmethod
    def _provider_has_models(cls, value: str | None, others: ValidationInfo) -> str | None:
        provider = others.data.get("provider")
        if value is not None and provider in ("static", "hash", "auto"):
            raise ValueError(f"expected with a provider that has models to choose from, not with provider {provider}")
        return value

    @field_validator(*_HOSTED_KEYS)
    @classmethod
    def _provider_is_hosted(cls, value: Any, others: ValidationInfo) -> Any:
        provider = others.data.get("provider")
        if value is not None and provider is not None and provider not in HOSTED_PROVIDERS:
            raise ValueError(f"expected only with one of {', '.join(sorted(HOSTED_PROVIDERS))}, not with {provider}")
        return value

    @model_validator(mode="after")
    def _litellm_needs_a_model(self) -> Self:
        if self.provider == "litellm" and self.model is None:
            raise ValueError("expected a model with provider litellm, such as 'cohere/embed-v4.0'")
        return self


class EmbeddingConfig(EmbedderConfig):
    """Which model turns text into vectors.

    ``fallback`` names, in order, what a refresh turns to when the one before cannot be had. A refresh ends with one of
    them for the whole corpus, which may mean that everything is embedded anew.
    """

    fallback: tuple[EmbedderConfig, ...] = ()

    @property
    def chain(self) -> tuple[EmbedderConfig, ...]:
        """What a refresh tries, in order: this one first."""
        return (self, *self.fallback)


class BudgetConfig(Strict):
    """What one refresh may spend on embedding. It stops before it spends more, and keeps what it has."""

    usd_per_refresh: float | None = Field(default=None, ge=0)
    tokens_per_refresh: int | None = Field(default=None, ge=0)
