"""The asset keys of one corpus, and the job that refreshes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import dagster as dg

RefreshJob: TypeAlias = Any
"""Whatever `dg.define_asset_job` gives; Dagster 1.13 does not export the class."""


KeyPrefix: TypeAlias = str | Sequence[str]
"""What comes before the corpus's name in the keys of its assets, as Dagster takes prefixes: one part, or several."""


@dataclass(frozen=True)
class CorpusKeys:
    """``prefix`` comes before the corpus's name in every key, so that a corpus finds its place among other assets."""

    corpus: str
    prefix: tuple[str, ...] = ()

    def key(self, stage: str) -> dg.AssetKey:
        return dg.AssetKey([*self.prefix, self.corpus, stage])


def parts_of(prefix: KeyPrefix) -> tuple[str, ...]:
    return (prefix,) if isinstance(prefix, str) else tuple(prefix)
