"""The only room that imports Dagster: corpora become assets, checks, jobs, schedules, sensors and resources."""

from rag_pipeline.orchestration.component import RagCorpus
from rag_pipeline.orchestration.conditions import on_new_snapshot
from rag_pipeline.orchestration.corpus_definitions import build_corpus_definitions, build_definitions
from rag_pipeline.orchestration.resources import CorpusStores, Embedders, RefreshSettings
from rag_pipeline.orchestration.run import RefreshOutcome, run_refresh
from rag_pipeline.orchestration.upkeep import build_upkeep_definitions

__all__ = [
    "CorpusStores",
    "Embedders",
    "RagCorpus",
    "RefreshOutcome",
    "RefreshSettings",
    "build_corpus_definitions",
    "build_definitions",
    "build_upkeep_definitions",
    "on_new_snapshot",
    "run_refresh",
]
