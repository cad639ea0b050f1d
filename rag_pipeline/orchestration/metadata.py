"""What a materialisation shows: every number of a report under its own name, so that Dagster plots it over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from rag_pipeline.contracts import Contract, TunedFusion
from rag_pipeline.orchestration import names
from rag_pipeline.orchestration.columns import column_lineage, column_schema
from rag_pipeline.orchestration.keys import CorpusKeys
from rag_pipeline.orchestration.markup import escaped_name
from rag_pipeline.refresh import RefreshContext
from rag_pipeline.refresh.reports import DocumentChange, DocumentsReport, EvaluationReport, VectorTableReport
from rag_pipeline.refresh.samples import sampled_chunks

_TABLES = {
    names.DOCUMENTS: "documents",
    names.CHUNKS: "chunks",
    names.VECTOR_TABLE: "vectors",
    names.EVALUATION: "evaluations",
}
_ROW_COUNTS = {names.DOCUMENTS: "total", names.CHUNKS: "total", names.VECTOR_TABLE: "rows", names.BM25_INDEX: "chunks"}
_ROWS_SHOWN = 20
_CHARACTERS_SHOWN = 80
_SHOWN_OTHERWISE = {"failures", "incomplete", "figures", "fusion"}
_WHEN_THERE = {
    "turned_from", "identity_before", "context_lines_written", "context_lines_missing", "context_tokens", "context_cost_usd",
    "reasons",
}  # fmt: skip
"""Shown when they say something: most runs keep their embedder, most corpora have no context lines of a model."""

_SUMMARY = {
    "documents_unchanged": (names.DOCUMENTS, "unchanged"),
    "documents_failed": (names.DOCUMENTS, "failed"),
    "documents_stale": (names.DOCUMENTS, "stale"),
    "chunks_added": (names.CHUNKS, "added"),
    "chunks_removed": (names.CHUNKS, "removed"),
    "embedded": (names.EMBEDDINGS, "embedded"),
    "cached": (names.EMBEDDINGS, "cached"),
    "cost_usd": (names.EMBEDDINGS, "cost_usd"),
    "context_cost_usd": (names.CHUNKS, "context_cost_usd"),
}
"""What `snapshot` repeats of the stages before it, so that one look at it tells what a refresh did."""


def report_metadata(report: Contract) -> dict[str, Any]:
    """A report as metadata. Texts of documents are never part of it: names, titles and headings at the most."""
    values = {name: value for name, value in report.model_dump(mode="json").items() if name not in _SHOWN_OTHERWISE}
    values = {name: value for name, value in values.items() if name not in _WHEN_THERE or value}
    if isinstance(report, EvaluationReport):
        values |= {f"{mode} {name}": value for mode, figures in report.figures.items() for name, value in figures.items()}
        if report.fusion is not None:
            values |= _fusion_metadata(report.fusion)
    if isinstance(report, DocumentsReport):
        if report.failures:
            rows = [(found.source, found.reason, "yes" if found.kept else "no") for found in report.failures]
            values["failures"] = _table(("source", "reason", "earlier version kept"), rows, cut=False)
        if report.incomplete:
            missing = [(document.source, document.reason) for document in report.incomplete]
            values["incomplete"] = _table(("source", "what is missing"), missing, cut=False)
        if report.sample:
            values["changes"] = _changes(report.sample)
    return values


def table_metadata(refresh: RefreshContext, keys: CorpusKeys, stage: str, report: Contract) -> dict[str, Any]:
    """Where the stage's data lies, its columns, where they come from, and how many rows it has, as Dagster knows them."""
    values: dict[str, Any] = {}
    if stage in _TABLES:
        values["dagster/uri"] = refresh.store.uri(_TABLES[stage])
        values["dagster/table_name"] = f"{refresh.store.corpus}.{_TABLES[stage]}"
    if stage in _ROW_COUNTS:
        values["dagster/row_count"] = getattr(report, _ROW_COUNTS[stage])
    schema = column_schema(refresh.corpus, stage, refresh.embedder.identity if stage == names.VECTOR_TABLE else None)
    if schema is not None:
        values["dagster/column_schema"] = schema
    lineage = column_lineage(refresh.corpus, keys, stage)
    if lineage is not None:
        values["dagster/column_lineage"] = lineage
    if isinstance(report, VectorTableReport) and report.rows_written:
        rows = [(row["source"], row["headings"], row["characters"]) for row in sampled_chunks(refresh)]
        values["sample"] = _table(("source", "headings", "characters"), rows)
    return values


def summary_metadata(figures: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What a refresh did in all its stages; of stages that ran on their own nothing is known."""
    values = {name: figures[stage][figure] for name, (stage, figure) in _SUMMARY.items() if figure in figures.get(stage, {})}
    if figures.keys() >= set(names.STAGES):
        values["refresh_seconds"] = round(sum(float(figures[stage]["seconds"]) for stage in names.STAGES), 3)
    return values


def _fusion_metadata(fusion: TunedFusion) -> dict[str, Any]:
    return {
        "bm25_weight": fusion.bm25_weight,
        "bm25_weight default": fusion.default_weight,
        "bm25_weight tuned on queries": fusion.tuned_on,
        "bm25_weight reported on queries": fusion.reported_on,
        f"hybrid {fusion.metric} reported": fusion.tuned_figure,
        f"hybrid {fusion.metric} reported with the default": fusion.default_figure,
    }


def _changes(sample: Sequence[DocumentChange]) -> dg.MarkdownMetadataValue:
    return _table(("change", "source", "title"), [(change.change, change.source, change.title or "") for change in sample])


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]], cut: bool = True) -> dg.MarkdownMetadataValue:
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    lines += [f"| {' | '.join(_cell(value, cut) for value in row)} |" for row in rows[:_ROWS_SHOWN]]
    if len(rows) > _ROWS_SHOWN:
        lines.append(f"\n… and {len(rows) - _ROWS_SHOWN} more")
    return dg.MetadataValue.md("\n".join(lines))


def _cell(value: object, cut: bool) -> str:
    text = " ".join(str(value).split())
    if cut and len(text) > _CHARACTERS_SHOWN:
        text = text[: _CHARACTERS_SHOWN - 1] + "…"
    return escaped_name(text)
