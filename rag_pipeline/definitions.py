"""Dagster's entry point: every corpus under the corpora root (RAG_PIPELINE_CORPORA, by default `corpora`)."""

import dagster as dg

from rag_pipeline.config import corpora_root
from rag_pipeline.corpus_files import load_corpora
from rag_pipeline.orchestration import build_definitions, build_upkeep_definitions


@dg.definitions
def definitions() -> dg.Definitions:
    """Load the corpora, build each one's definitions, merge them with what looks after the instance."""
    return dg.Definitions.merge(build_definitions(load_corpora(corpora_root())), build_upkeep_definitions())
