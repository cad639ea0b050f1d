"""What must hold before a snapshot is published. Each check says what it found, and what to do when it fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rag_pipeline.errors import StoreError
from rag_pipeline.evaluation.gates import Verdict
from rag_pipeline.index.bm25 import verify_segment
from rag_pipeline.index.snapshot import served_manifest
from rag_pipeline.index.store import CHUNKS, DOCUMENTS, VECTORS
from rag_pipeline.index.working_segments import read_working_segments
from rag_pipeline.lance import read, scan
from rag_pipeline.refresh.context import RefreshContext
from rag_pipeline.refresh.document_rows import OK
from rag_pipeline.refresh.evaluation import judge_candidate
from rag_pipeline.wording import counted


@dataclass(frozen=True)
class CheckOutcome:
    """``numbers`` are shown beside the description and plotted over time. ``harmless``: a failure blocks nothing."""

    passed: bool
    description: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    harmless: bool = False


def check_documents_readable(context: RefreshContext) -> CheckOutcome:
    """Every document of the source could be read and parsed; those of which a part is missing are named."""
    table = context.store.table(DOCUMENTS)
    columns = ["source", "status", "reason"]
    rows = read(table, columns, f"status != '{OK}'").to_pylist() if table is not None else []
    partly = read(table, columns, f"status = '{OK}' AND reason IS NOT NULL").to_pylist() if table is not None else []
    parts = []
    if rows:
        parts.append(
            f"{counted(len(rows), 'document')} could not be read: {_shown(rows)}. "
            "Mend or exclude them; earlier versions stay served."
        )
    if partly:
        parts.append(f"{counted(len(partly), 'document')} read in part: {_shown(partly)}.")
    description = " ".join(parts) or "Every document could be read."
    return CheckOutcome(not rows, description, {"unreadable": len(rows), "incomplete": len(partly)})


def _shown(rows: list[dict[str, Any]]) -> str:
    return "; ".join(f"{row['source']}: {row['reason']}" for row in rows[:5]) + ("; …" if len(rows) > 5 else "")


def check_vector_rows(context: RefreshContext) -> CheckOutcome:
    """The vector table holds each chunk exactly once."""
    chunks, vectors = context.store.table(CHUNKS), context.store.table(VECTORS)
    if chunks is None or vectors is None:
        return CheckOutcome(False, "There is no chunks table or no vector table; refresh the corpus.")
    wanted, rows = chunks.count_rows(), vectors.count_rows()
    distinct = len(read(vectors, ["chunk_id"])["chunk_id"].unique())
    passed = wanted == rows == distinct
    remedy = "" if passed else " Refresh again; if it comes back, refresh with --full."
    return CheckOutcome(
        passed,
        f"{counted(wanted, 'chunk')}, {counted(rows, 'row')}, {counted(distinct, 'distinct chunk id')}.{remedy}",
        {"chunks": wanted, "rows": rows, "distinct_chunk_ids": distinct},
    )


def check_vectors(context: RefreshContext) -> CheckOutcome:
    """Every vector has the width of the embedder and holds finite numbers only."""
    table = context.store.table(VECTORS)
    if table is None:
        return CheckOutcome(False, "There is no vector table; refresh the corpus.")
    width, expected = table.schema.field("vector").type.list_size, context.embedder.identity.dimensions
    served = served_manifest(context.store)
    if served is not None and served.vector_table.version == table.version and width == expected:
        return CheckOutcome(True, f"Unchanged since snapshot {served.snapshot}.", {"dimensions": width, "not_finite": 0})
    bad = sum(
        int((~np.isfinite(batch["vector"].flatten().to_numpy(zero_copy_only=False))).sum())
        for batch in scan(table, ["vector"])
    )
    passed = not bad and width == expected
    remedy = "" if passed else " Refresh with --full; if it comes back, the model gives bad vectors."
    return CheckOutcome(
        passed,
        f"{width} dimensions (the embedder has {expected}), {bad} numbers that are not finite.{remedy}",
        {"dimensions": width, "not_finite": bad},
    )


def check_lexical_rows(context: RefreshContext) -> CheckOutcome:
    """The BM25 segments hold each chunk exactly once, and their files are what was written."""
    chunks, working = context.store.table(CHUNKS), read_working_segments(context.store.bm25)
    if chunks is None or working is None:
        return CheckOutcome(False, "There is no chunks table or no lexical index; refresh the corpus.")
    wanted = chunks.count_rows()
    held = sum(segment.chunks - segment.deleted for segment in working.segments)
    try:
        for segment in working.segments:
            verify_segment(context.store.bm25, segment)
    except StoreError as error:
        return CheckOutcome(False, f"{error}. Refresh with --full.", {"chunks": wanted, "indexed": held})
    passed = wanted == held
    remedy = "" if passed else " Refresh again; if it comes back, refresh with --full."
    return CheckOutcome(
        passed, f"{counted(wanted, 'chunk')}, {held} in the index.{remedy}", {"chunks": wanted, "indexed": held}
    )


def check_gates(context: RefreshContext) -> CheckOutcome:
    """The candidate's figures are at least what `evaluation.gates` of corpus.yaml asks."""
    return _outcome(judge_candidate(context, "evaluation_gates").gates)


def check_step_back(context: RefreshContext) -> CheckOutcome:
    """The candidate answers no worse than the snapshot that is served, but for what `evaluation.max_drop` allows."""
    return _outcome(judge_candidate(context, "evaluation_no_step_back").step_back)


def _outcome(verdict: Verdict) -> CheckOutcome:
    severity = verdict.severity
    return CheckOutcome(severity == "fine", verdict.description, verdict.numbers, harmless=severity == "warning")
