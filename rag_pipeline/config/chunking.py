"""`chunking`: how documents are cut."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from rag_pipeline.config.strict import Strict

DEFAULT_OVERLAP = 64
"""Tokens; a smaller ``size`` without an ``overlap`` beside it takes a seventh of its size."""


class ChunkingConfig(Strict):
    """How documents are cut. Sizes are in tokens of the corpus's embedder."""

    strategy: Literal["recursive"] = "recursive"
    size: int = Field(default=480, ge=8, le=100_000)
    overlap: int = Field(default=DEFAULT_OVERLAP, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _overlap_follows_size(cls, values: Any) -> Any:
        """Whoever sets a small size alone gets an overlap that fits it."""
        if isinstance(values, dict) and isinstance(values.get("size"), int) and "overlap" not in values:
            return {**values, "overlap": max(0, min(DEFAULT_OVERLAP, values["size"] // 7))}
        return values

    @field_validator("overlap")
    @classmethod
    def _overlap_below_size(cls, overlap: int, others: ValidationInfo) -> int:
        size = others.data.get("size")
        if size is not None and overlap >= size:
            raise ValueError(f"expected less than size ({size}), got {overlap}")
        return overlap
