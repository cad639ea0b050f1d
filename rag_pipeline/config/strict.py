"""The base of every section of corpus.yaml."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from rag_pipeline.hashing import value_hash


class Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def hash(self) -> str:
        """SHA-256 over all values: what depends on this configuration is redone when it changes."""
        return value_hash(self.model_dump(mode="json"))
