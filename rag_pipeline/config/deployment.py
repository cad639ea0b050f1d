"""What a deployment (a laptop, staging, production) lays over every corpus.yaml, so that the files stay the same in all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import Self

from rag_pipeline.config.corpus import CorpusConfig
from rag_pipeline.config.embedding import HOSTED_PROVIDERS, BudgetConfig, EmbedderConfig, EmbeddingConfig
from rag_pipeline.errors import ConfigError


class Deployment(BaseModel):
    """Nothing that is None changes a corpus.

    ``provider`` embeds every corpus with one that needs no settings, whatever its file says: `static` on a laptop. All
    others are limits; the smaller of theirs and the corpus's holds. ``requests_per_minute``, ``tokens_per_minute`` and
    ``concurrency`` are of one process and concern hosted models alone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    provider: Literal["static", "hash", "auto"] | None = None
    usd_per_refresh: float | None = Field(default=None, ge=0)
    tokens_per_refresh: int | None = Field(default=None, ge=0)
    concurrency: int | None = Field(default=None, ge=1)
    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)

    @classmethod
    def of_environment(cls) -> Self:
        """The deployment that DEPLOYMENT_VARIABLES describe. An empty value counts as not set.

        Raises:
            ConfigError: a variable has a value that cannot be; the message names it.
        """
        values = {field: os.environ.get(name) or None for field, name in DEPLOYMENT_VARIABLES.items()}
        return cls.of(values, DEPLOYMENT_VARIABLES)

    @classmethod
    def of(cls, values: Mapping[str, Any], called: Mapping[str, str]) -> Self:
        """The deployment of these values.

        Args:
            called: what each field is called where its value was written.

        Raises:
            ConfigError: a value cannot be; the message names it.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            faults = (
                f"{called[str(fault['loc'][0])]}={fault['input']}: expected {fault['msg'].removeprefix('Input should be ')}"
                for fault in error.errors()
            )
            raise ConfigError("\n".join(faults)) from None

    def applied(self, corpus: CorpusConfig) -> CorpusConfig:
        """The corpus as it is refreshed in this deployment."""
        if self == Deployment():
            return corpus
        budget = BudgetConfig(
            usd_per_refresh=_smaller(corpus.budget.usd_per_refresh, self.usd_per_refresh),
            tokens_per_refresh=_smaller(corpus.budget.tokens_per_refresh, self.tokens_per_refresh),
        )
        return corpus.model_copy(update={"budget": budget, "embedding": self._embedding(corpus.embedding)})

    def _embedding(self, embedding: EmbeddingConfig) -> EmbeddingConfig:
        if self.provider is not None:
            return EmbeddingConfig.model_validate({"provider": self.provider})
        fallback = tuple(config.model_copy(update=self._limits(config)) for config in embedding.fallback)
        return embedding.model_copy(update={**self._limits(embedding), "fallback": fallback})

    def _limits(self, config: EmbedderConfig) -> dict[str, Any]:
        if config.provider not in HOSTED_PROVIDERS:
            return {}
        names = ("concurrency", "requests_per_minute", "tokens_per_minute")
        return {name: _smaller(getattr(config, name), getattr(self, name)) for name in names}


DEPLOYMENT_VARIABLES = {name: f"RAG_PIPELINE_{name.upper()}" for name in Deployment.model_fields}
"""The environment variable of each field of Deployment."""


def _smaller(first: Any, second: Any) -> Any:
    given = [value for value in (first, second) if value is not None]
    return min(given) if given else None
