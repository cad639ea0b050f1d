"""The checks of one corpus. The blocking ones stand before `snapshot`: when one fails, nothing is published."""

# Dagster reads the annotations of asset functions as objects, so that they cannot be postponed here.
from collections.abc import Callable

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration import names
from rag_pipeline.orchestration.assets import failures_for_people
from rag_pipeline.orchestration.resources import RefreshSettings
from rag_pipeline.refresh import RefreshContext
from rag_pipeline.refresh.checks import (
    CheckOutcome,
    check_documents_readable,
    check_gates,
    check_lexical_rows,
    check_step_back,
    check_vector_rows,
    check_vectors,
)

Check = Callable[[RefreshContext], CheckOutcome]


def build_checks(corpus: CorpusConfig) -> list[dg.AssetChecksDefinition]:
    """The checks from the documents to the evaluation."""
    return [
        _check(
            corpus,
            names.DOCUMENTS,
            names.DOCUMENTS_READABLE,
            check_documents_readable,
            blocking=False,
            description="Every document could be read. One that could not keeps its earlier version: mend or exclude it.",
        ),
        _check(
            corpus,
            names.VECTOR_TABLE,
            names.VECTOR_ROWS_MATCH_CHUNKS,
            check_vector_rows,
            blocking=True,
            description="The vector table holds each chunk exactly once. If it does not, refresh with `full`.",
        ),
        _check(
            corpus,
            names.VECTOR_TABLE,
            names.VECTORS_ARE_SOUND,
            check_vectors,
            blocking=True,
            description="Every vector has the embedder's width and holds finite numbers. If not, refresh with `full`.",
        ),
        _check(
            corpus,
            names.BM25_INDEX,
            names.BM25_ROWS_MATCH_CHUNKS,
            check_lexical_rows,
            blocking=True,
            description="The lexical index holds each chunk and its files are undamaged. If not, refresh with `full`.",
        ),
        _check(
            corpus,
            names.EVALUATION,
            names.EVALUATION_GATES,
            check_gates,
            blocking=True,
            description=(
                "The figures reach `evaluation.gates` of corpus.yaml. If not, mend what made them worse or lower the gates; "
                "`accept_drop` publishes once as it is."
            ),
        ),
        _check(
            corpus,
            names.EVALUATION,
            names.EVALUATION_NO_STEP_BACK,
            check_step_back,
            blocking=True,
            description=(
                "The candidate answers as well as the served snapshot, but for `evaluation.max_drop`. If not, look at the "
                "queries that fell; `accept_drop` publishes what is meant to be so."
            ),
        ),
    ]


def _check(
    corpus: CorpusConfig, stage: str, name: str, run_check: Check, *, blocking: bool, description: str
) -> dg.AssetChecksDefinition:
    severity = dg.AssetCheckSeverity.ERROR if blocking else dg.AssetCheckSeverity.WARN

    @dg.asset_check(
        asset=dg.AssetKey([corpus.name, stage]),
        name=name,
        blocking=blocking,
        description=description,
        required_resource_keys={names.SETTINGS_RESOURCE},
    )
    def body(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        settings: RefreshSettings = getattr(context.resources, names.SETTINGS_RESOURCE)
        with failures_for_people():
            outcome = run_check(settings.context(corpus, context.run.run_id))
        return dg.AssetCheckResult(
            passed=outcome.passed,
            severity=dg.AssetCheckSeverity.WARN if outcome.harmless else severity,
            description=outcome.description,
            metadata=dict(outcome.numbers),
        )

    return body
