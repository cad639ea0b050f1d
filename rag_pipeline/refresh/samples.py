"""A few rows of what a stage made, for people who look on. Never the text of a document."""

from __future__ import annotations

from typing import Any

from rag_pipeline.index.store import VECTORS
from rag_pipeline.refresh.context import RefreshContext

_ROWS = 5


def sampled_chunks(context: RefreshContext) -> list[dict[str, Any]]:
    """The chunks that were written last: source, headings, and length in characters."""
    table = context.store.table(VECTORS)
    if table is None:
        return []
    rows = table.count_rows()
    wanted = list(range(max(rows - _ROWS, 0), rows))
    columns = ["source", "heading_path", "start", "end"]
    found = table.take_offsets(wanted).select(columns).to_arrow().to_pylist() if wanted else []
    return [
        {"source": row["source"], "headings": row["heading_path"], "characters": row["end"] - row["start"]} for row in found
    ]
