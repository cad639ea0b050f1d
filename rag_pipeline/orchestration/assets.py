"""The asset graph of one corpus. Each body calls its stage, reports what the stage returned, and checks it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration import names
from rag_pipeline.orchestration.checks import check_results, check_specs
from rag_pipeline.orchestration.failures import failures_for_people
from rag_pipeline.orchestration.keys import CorpusKeys
from rag_pipeline.orchestration.metadata import report_metadata, summary_metadata, table_metadata
from rag_pipeline.orchestration.references import code_references
from rag_pipeline.orchestration.resources import RefreshSettings
from rag_pipeline.orchestration.source import consumed_source, source_events
from rag_pipeline.orchestration.stages import Stage, stages_of
from rag_pipeline.refresh import RefreshContext
from rag_pipeline.refresh.code_versions import code_versions
from rag_pipeline.refresh.data_versions import data_version
from rag_pipeline.refresh.reports import DocumentsReport


def build_assets(corpus: CorpusConfig, keys: CorpusKeys) -> list[dg.AssetsDefinition]:
    """The assets from documents to snapshot, with the checks that run in their steps."""
    versions = code_versions(corpus)
    return [_asset(corpus, keys, stage, versions[stage.name]) for stage in stages_of(corpus)]


def _asset(corpus: CorpusConfig, keys: CorpusKeys, stage: Stage, code_version: str) -> dg.AssetsDefinition:
    @dg.asset(
        key=keys.key(stage.name),
        deps=[keys.key(dep) for dep in stage.deps],
        group_name=corpus.name,
        description=stage.description,
        kinds=set(stage.kinds),
        owners=list(corpus.owners),
        tags=names.run_tags(corpus.name, corpus.group),
        metadata=code_references(corpus, stage.run),
        code_version=code_version,
        freshness_policy=_freshness_policy(corpus) if stage.name == names.SNAPSHOT else None,
        pool=stage.pool,
        check_specs=check_specs(keys, stage.name),
        required_resource_keys={names.SETTINGS_RESOURCE},
    )
    def body(context):  # type: ignore[no-untyped-def]  # Dagster evaluates annotations: 1 s of CPU for 200 corpora
        yield from _run_stage(context, corpus, keys, stage)

    return body


def _run_stage(
    context: dg.AssetExecutionContext, corpus: CorpusConfig, keys: CorpusKeys, stage: Stage
) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
    settings: RefreshSettings = getattr(context.resources, names.SETTINGS_RESOURCE)
    started = time.perf_counter()
    with failures_for_people(settings, context.retry_number):
        refresh = settings.context(corpus, context.run.run_id, context.log)
    with failures_for_people(settings, context.retry_number, refresh.told_at_failure):
        report = stage.run(refresh)
        version = data_version(refresh, stage.name, report)
    refresh.reporter.record(corpus.name, stage.name, report)
    metadata = {**report_metadata(report), "seconds": round(time.perf_counter() - started, 3)}
    refresh.figures[stage.name] = metadata
    tags = {}
    if isinstance(report, DocumentsReport) and report.listing is not None:
        for event in source_events(context.instance, keys, report.listing):
            context.log_event(event)
        tags = consumed_source(keys, report.listing)
    if stage.name == names.SNAPSHOT:
        _recall_figures(context, refresh, keys)
        metadata = {**metadata, **summary_metadata(refresh.figures)}
    metadata |= table_metadata(refresh, keys, stage.name, report)
    yield dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(version), tags=tags)
    with failures_for_people():
        yield from check_results(refresh, keys, stage.name)


def _freshness_policy(corpus: CorpusConfig) -> dg.FreshnessPolicy | None:
    if corpus.freshness is None:
        return None
    warn = corpus.freshness.warn_age_hours
    return dg.FreshnessPolicy.time_window(
        fail_window=timedelta(hours=corpus.freshness.max_age_hours),
        warn_window=timedelta(hours=warn) if warn is not None else None,
    )


def _recall_figures(context: dg.AssetExecutionContext, refresh: RefreshContext, keys: CorpusKeys) -> None:
    """Ask the instance what the other stages of this run did, where they ran in other processes."""
    for stage in names.STAGES:
        if stage in refresh.figures:
            continue
        event = context.instance.get_latest_materialization_event(keys.key(stage))
        if event is not None and event.run_id == context.run.run_id and event.asset_materialization is not None:
            refresh.figures[stage] = _numbers(event.asset_materialization.metadata)


def _numbers(metadata: Mapping[str, dg.MetadataValue[Any]]) -> dict[str, Any]:
    return {name: value.value for name, value in metadata.items() if isinstance(value.value, (bool, int, float))}
