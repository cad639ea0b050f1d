"""Dagster's entry point: every corpus under the corpora root (RAG_PIPELINE_CORPORA, by default `corpora`)."""

import os

import dagster as dg

from rag_pipeline.config import STRICT_VARIABLE, corpora_root
from rag_pipeline.corpus_files import load_corpora, load_sound_corpora
from rag_pipeline.orchestration import build_definitions, build_upkeep_definitions


@dg.definitions
def definitions() -> dg.Definitions:
    """Load the corpora, build each one's definitions, merge them with what looks after the instance.

    A corpus.yaml with a fault is shown as a failed check beside the others; with RAG_PIPELINE_STRICT it stops the loading.
    The executor is that of assets which are materialized without a job: one process, as the jobs of corpora have.
    """
    root = corpora_root()
    strict = bool(os.environ.get(STRICT_VARIABLE))
    corpora, faulty = (load_corpora(root), []) if strict else load_sound_corpora(root)
    executor = dg.Definitions(executor=dg.in_process_executor)
    return dg.Definitions.merge(
        build_definitions(corpora, faulty=faulty, strict=strict), build_upkeep_definitions(), executor
    )
