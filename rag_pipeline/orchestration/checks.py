"""The checks of one corpus. The blocking ones stand before `snapshot`: when one fails, nothing is published.

They run in the steps of their assets: a step of its own would cost more than most of them. `snapshot_is_whole` can be run
on its own as well, to look after a snapshot without refreshing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration import names
from rag_pipeline.orchestration.failures import failures_for_people
from rag_pipeline.orchestration.keys import CorpusKeys
from rag_pipeline.orchestration.markup import escaped
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
from rag_pipeline.refresh.promises import (
    check_cost_of_change,
    check_every_text_embedded,
    check_nothing_lost,
    check_one_identity,
    check_snapshot_whole,
)


@dataclass(frozen=True)
class Check:
    """``blocking`` checks are errors when they fail and stop what comes after; the others are warnings."""

    stage: str
    name: str
    run: Callable[[RefreshContext], CheckOutcome]
    blocking: bool
    description: str


STAGE_CHECKS = (
    Check(
        names.DOCUMENTS,
        names.DOCUMENTS_READABLE,
        check_documents_readable,
        False,
        "Every document could be read. One that could not keeps its earlier version: mend or exclude it.",
    ),
    Check(
        names.DOCUMENTS,
        names.NOTHING_LOST,
        check_nothing_lost,
        True,
        "Every file that is served and still in the source is among the documents. If not, refresh with `full`.",
    ),
    Check(
        names.EMBEDDINGS,
        names.EVERY_TEXT_EMBEDDED,
        check_every_text_embedded,
        True,
        "Every text of the chunks has a vector. If not, refresh again; nothing is embedded twice.",
    ),
    Check(
        names.VECTOR_TABLE,
        names.VECTOR_ROWS_MATCH_CHUNKS,
        check_vector_rows,
        True,
        "The vector table holds each chunk exactly once. If it does not, refresh with `full`.",
    ),
    Check(
        names.VECTOR_TABLE,
        names.VECTORS_ARE_SOUND,
        check_vectors,
        True,
        "Every vector has the embedder's width and holds finite numbers. If not, refresh with `full`.",
    ),
    Check(
        names.VECTOR_TABLE,
        names.VECTORS_HAVE_ONE_IDENTITY,
        check_one_identity,
        True,
        "All vectors are of the embedder that searches will use. If not, refresh again, then with `full`.",
    ),
    Check(
        names.BM25_INDEX,
        names.BM25_ROWS_MATCH_CHUNKS,
        check_lexical_rows,
        True,
        "The lexical index holds each chunk and its files are undamaged. If not, refresh with `full`.",
    ),
    Check(
        names.EVALUATION,
        names.EVALUATION_GATES,
        check_gates,
        True,
        "The figures reach `evaluation.gates` of corpus.yaml. If not, mend what made them worse or lower the gates; "
        "`accept_drop` publishes once as it is.",
    ),
    Check(
        names.EVALUATION,
        names.EVALUATION_NO_STEP_BACK,
        check_step_back,
        True,
        "The candidate answers as well as the served snapshot, but for `evaluation.max_drop`. If not, look at the "
        "queries that fell; `accept_drop` publishes what is meant to be so.",
    ),
    Check(
        names.SNAPSHOT,
        names.REFRESH_COSTS_THE_CHANGE,
        check_cost_of_change,
        False,
        "A refresh that found nothing changed did no work. If it did, see whether the one before was killed.",
    ),
)
"""The checks that run in the steps of their stages."""

SNAPSHOT_CHECK = Check(
    names.SNAPSHOT,
    names.SNAPSHOT_IS_WHOLE,
    check_snapshot_whole,
    True,
    "All that the served snapshot names is there and undamaged. If not, restore it, roll back, or refresh with `full`. "
    "Can be run alone at any time.",
)


def check_specs(keys: CorpusKeys, stage: str) -> list[dg.AssetCheckSpec]:
    return [
        dg.AssetCheckSpec(check.name, asset=keys.key(stage), description=check.description, blocking=check.blocking)
        for check in STAGE_CHECKS
        if check.stage == stage
    ]


def check_results(refresh: RefreshContext, keys: CorpusKeys, stage: str) -> Iterator[dg.AssetCheckResult]:
    """Run the checks of a stage that has just run."""
    for check in STAGE_CHECKS:
        if check.stage == stage:
            yield _result(check, check.run(refresh), keys)


def build_snapshot_check(corpus: CorpusConfig, keys: CorpusKeys) -> dg.AssetChecksDefinition:
    """The check that looks after the served snapshot, after each refresh and whenever somebody asks."""

    @dg.asset_check(
        asset=keys.key(SNAPSHOT_CHECK.stage),
        name=SNAPSHOT_CHECK.name,
        blocking=SNAPSHOT_CHECK.blocking,
        description=SNAPSHOT_CHECK.description,
        required_resource_keys={names.SETTINGS_RESOURCE},
    )
    def body(context):  # type: ignore[no-untyped-def]  # as in assets.py: annotations would be evaluated for each corpus
        return _run_snapshot_check(context, corpus, keys)

    return body


def _run_snapshot_check(
    context: dg.AssetCheckExecutionContext, corpus: CorpusConfig, keys: CorpusKeys
) -> dg.AssetCheckResult:
    settings: RefreshSettings = getattr(context.resources, names.SETTINGS_RESOURCE)
    with failures_for_people(settings, context.retry_number):
        refresh = settings.reading_context(corpus, context.run.run_id)
        return _result(SNAPSHOT_CHECK, SNAPSHOT_CHECK.run(refresh), keys)


def _result(check: Check, outcome: CheckOutcome, keys: CorpusKeys) -> dg.AssetCheckResult:
    serious = check.blocking and not outcome.harmless
    return dg.AssetCheckResult(
        asset_key=keys.key(check.stage),
        check_name=check.name,
        passed=outcome.passed,
        severity=dg.AssetCheckSeverity.ERROR if serious else dg.AssetCheckSeverity.WARN,
        description=escaped(outcome.description),
        metadata=dict(outcome.numbers),
    )
