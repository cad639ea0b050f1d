"""`chunking`: how documents are cut, and what stands above each chunk."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import Field, SerializerFunctionWrapHandler, ValidationInfo, field_validator, model_serializer, model_validator
from typing_extensions import Self

from rag_pipeline.config.addresses import plain_address
from rag_pipeline.config.strict import Strict

DEFAULT_OVERLAP = 64
"""Tokens; a smaller ``size`` without an ``overlap`` beside it takes a seventh of its size."""

ContextLine: TypeAlias = Literal["title_and_headings", "title", "none", "llm"]

_DEFAULT_SIZE = 480
_DEFAULT_CHILD_SIZE = 160
_CHILDREN_PER_PARENT = 3
_ONLY_WITH: dict[str, tuple[str, str]] = {
    "parent_size": ("strategy", "parent-child"),
    "percentile": ("strategy", "semantic"),
    "context_model": ("context", "llm"),
    "context_api_base": ("context", "llm"),
    "context_timeout_seconds": ("context", "llm"),
    "context_on_failure": ("context", "llm"),
}
"""Keys that mean something beside one value of another key only."""


class ChunkingConfig(Strict):
    """How documents are cut. Sizes are in tokens of the corpus's embedder.

    ``size`` bounds what is searched: the chunks, or the children of strategy ``parent-child``, whose hits show parents of
    up to ``parent_size``. ``percentile`` is for strategy ``semantic``: a shift between sentences above it is a boundary.
    ``context`` is the line under which a chunk is embedded and indexed. For ``llm`` the chat model ``context_model``
    writes it; with ``context_on_failure: headings`` a model that fails leaves title and headings, with a warning.
    See docs/chunking.md.
    """

    strategy: Literal["recursive", "semantic", "parent-child"] = "recursive"
    size: int = Field(default_factory=lambda others: _default_size(others), ge=8, le=100_000)
    overlap: int = Field(default_factory=lambda others: _default_overlap(others), ge=0)
    parent_size: int = Field(default_factory=lambda others: _default_parent_size(others), ge=8, le=1_000_000)
    percentile: float = Field(default=95, ge=50, le=100)
    context: ContextLine = "title_and_headings"
    context_model: str | None = Field(default=None, min_length=1)
    context_api_base: str | None = None
    context_timeout_seconds: float = Field(default=60, gt=0)
    context_on_failure: Literal["error", "headings"] = "error"

    @field_validator("overlap")
    @classmethod
    def _overlap_below_size(cls, overlap: int, others: ValidationInfo) -> int:
        size = others.data.get("size")
        if overlap and others.data.get("strategy") == "semantic":
            raise ValueError(f"expected 0 or nothing with strategy: semantic, whose chunks part by subject, got {overlap}")
        if size is not None and overlap >= size:
            raise ValueError(f"expected less than size ({size}), got {overlap}")
        return overlap

    @field_validator("parent_size")
    @classmethod
    def _parents_hold_their_children(cls, parent_size: int, others: ValidationInfo) -> int:
        size = others.data.get("size")
        if size is not None and parent_size < size:
            raise ValueError(f"expected at least size ({size}), got {parent_size}")
        return parent_size

    @field_validator(*_ONLY_WITH)
    @classmethod
    def _belongs_to_another_key(cls, given: Any, others: ValidationInfo) -> Any:
        other, value = _ONLY_WITH[str(others.field_name)]
        if others.data.get(other, value) != value:
            raise ValueError(f"expected with {other}: {value} only, not with {others.data[other]}")
        return given

    @field_validator("context_api_base")
    @classmethod
    def _context_api_base_is_a_plain_address(cls, address: str | None) -> str | None:
        return plain_address(address)

    @model_validator(mode="after")
    def _written_context_needs_a_model(self) -> Self:
        if self.context == "llm" and self.context_model is None:
            raise ValueError("expected context_model with context: llm, such as 'openai/gpt-4o-mini'")
        return self

    @model_serializer(mode="wrap")
    def _without_other_strategies(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What is said of the strategy and the context line that are used: the manifests of others hold no word of it."""
        values: dict[str, Any] = serialise(self)
        unused = {name for name, (other, value) in _ONLY_WITH.items() if getattr(self, other) != value}
        if self.context == "title_and_headings":
            unused.add("context")
        return {name: value for name, value in values.items() if name not in unused}

    @property
    def deciding(self) -> dict[str, Any]:
        """The settings that decide what chunks a document has; with others every document is cut again."""
        reached = {"context_api_base", "context_timeout_seconds", "context_on_failure"}
        return {name: value for name, value in self.model_dump(mode="json").items() if name not in reached}

    def limited_to(self, size: int) -> ChunkingConfig:
        """The same with chunks of at most this size, where a model takes no more."""
        given = {name: getattr(self, name) for name in self.model_fields_set if name != "size"}
        if "overlap" in given:
            given["overlap"] = min(given["overlap"], size // 2)
        return ChunkingConfig.model_validate({**given, "size": size})


def _default_size(others: dict[str, Any]) -> int:
    return _DEFAULT_CHILD_SIZE if others.get("strategy") == "parent-child" else _DEFAULT_SIZE


def _default_overlap(others: dict[str, Any]) -> int:
    """Children and subjects do not overlap; whoever sets a small size alone gets an overlap that fits it."""
    if others.get("strategy") != "recursive":
        return 0
    return max(0, min(DEFAULT_OVERLAP, int(others.get("size", _DEFAULT_SIZE)) // 7))


def _default_parent_size(others: dict[str, Any]) -> int:
    return _CHILDREN_PER_PARENT * int(others.get("size", _DEFAULT_CHILD_SIZE))
