"""What a materialisation shows: every number of a report under its own name, so that Dagster plots it over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg

from rag_pipeline.contracts import Contract, TunedFusion
from rag_pipeline.index.store import CorpusStore
from rag_pipeline.orchestration import names
from rag_pipeline.refresh.reports import DocumentsReport, EvaluationReport

_TABLES = {
    names.DOCUMENTS: "documents",
    names.CHUNKS: "chunks",
    names.VECTOR_TABLE: "vectors",
    names.EVALUATION: "evaluations",
}
_ROW_COUNTS = {names.DOCUMENTS: "total", names.CHUNKS: "total", names.VECTOR_TABLE: "rows", names.BM25_INDEX: "chunks"}
_FAILURES_SHOWN = 20
_SHOWN_OTHERWISE = {"failures", "incomplete", "figures", "fusion"}
_WHEN_THERE = {
    "turned_from", "identity_before", "context_lines_written", "context_lines_missing", "context_tokens", "context_cost_usd",
}  # fmt: skip
"""Shown when they say something: most runs keep their embedder, most corpora have no context lines of a model."""


def report_metadata(report: Contract) -> dict[str, Any]:
    """A report as metadata. Texts of documents are never part of it."""
    values = {name: value for name, value in report.model_dump(mode="json").items() if name not in _SHOWN_OTHERWISE}
    values = {name: value for name, value in values.items() if name not in _WHEN_THERE or value}
    if isinstance(report, EvaluationReport):
        values |= {f"{mode} {name}": value for mode, figures in report.figures.items() for name, value in figures.items()}
        if report.fusion is not None:
            values |= _fusion_metadata(report.fusion)
    if isinstance(report, DocumentsReport) and report.failures:
        values["failures"] = _table(
            ("source", "reason", "earlier version kept"),
            [(failure.source, failure.reason, "yes" if failure.kept else "no") for failure in report.failures],
        )
    if isinstance(report, DocumentsReport) and report.incomplete:
        rows = [(document.source, document.reason) for document in report.incomplete]
        values["incomplete"] = _table(("source", "what is missing"), rows)
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


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> dg.MarkdownMetadataValue:
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for row in rows[:_FAILURES_SHOWN]:
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |")
    if len(rows) > _FAILURES_SHOWN:
        lines.append(f"\n… and {len(rows) - _FAILURES_SHOWN} more")
    return dg.MetadataValue.md("\n".join(lines))


def table_metadata(store: CorpusStore, stage: str, report: Contract) -> dict[str, Any]:
    """Where the stage's data lies and how many rows it has, under the keys that Dagster knows."""
    values: dict[str, Any] = {}
    if stage in _TABLES:
        values["dagster/uri"] = store.uri(_TABLES[stage])
        values["dagster/table_name"] = f"{store.corpus}.{_TABLES[stage]}"
    if stage in _ROW_COUNTS:
        values["dagster/row_count"] = getattr(report, _ROW_COUNTS[stage])
    return values
