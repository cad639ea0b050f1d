"""The only room that imports Dagster: corpora become assets, checks, jobs, schedules and resources."""

from rag_pipeline.orchestration.corpus_definitions import build_corpus_definitions, build_definitions
from rag_pipeline.orchestration.resources import RefreshSettings
from rag_pipeline.orchestration.run import RefreshOutcome, run_refresh
from rag_pipeline.orchestration.upkeep import build_upkeep_definitions

__all__ = [
    "RefreshOutcome",
    "RefreshSettings",
    "build_corpus_definitions",
    "build_definitions",
    "build_upkeep_definitions",
    "run_refresh",
]
