"""Whether a refresh would find what it takes from outside of the store: the items of the source and the query set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rag_pipeline.config import CorpusConfig
from rag_pipeline.errors import RagPipelineError
from rag_pipeline.evaluation.query_set import configured_queries
from rag_pipeline.index.doctor import Finding
from rag_pipeline.refresh.source import look_at_source, nothing_listed


def examine_inputs(corpus: CorpusConfig) -> list[Finding]:
    """Everything that would stop a refresh of the corpus before it has read an item. The source is listed as a whole."""
    checks: tuple[Callable[[CorpusConfig], Any], ...] = (_list_source, configured_queries)
    findings = []
    for check in checks:
        try:
            check(corpus)
        except RagPipelineError as error:
            findings.append(Finding(corpus=corpus.name, severity="error", message=str(error)))
    return findings


def _list_source(corpus: CorpusConfig) -> None:
    if not look_at_source(corpus).items:
        raise nothing_listed(corpus)
