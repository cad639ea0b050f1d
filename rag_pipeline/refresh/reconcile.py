"""The comparison behind every stage: what should exist, by key, against what does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_pipeline.lance import scan

_ROWS_PER_BATCH = 2**17


class Difference(NamedTuple):
    """Documents whose rows are to be written, and documents whose present rows are to go."""

    missing: list[str]
    outdated: list[str]


def keys_by_document(table: Any, column: str) -> dict[str, str]:
    """For each document in a table, the key that its rows carry.

    When something went wrong, a document's rows carry several keys. They are joined then, and equal none that is wanted.
    """
    keys: dict[str, str] = {}
    several: defaultdict[str, set[str]] = defaultdict(set)
    for batch in scan(table, ["document_id", column], batch_rows=_ROWS_PER_BATCH):
        for document, key in _without_repetitions(*batch.columns):
            first = keys.setdefault(document, key)
            if key != first:
                several[document] |= {first, key}
    return keys | {document: "".join(sorted(all_keys)) for document, all_keys in several.items()}


def _without_repetitions(documents: pa.Array, keys: pa.Array) -> Iterator[tuple[str, str]]:
    """Pairs of document and key, without those that repeat the row before: most rows do."""
    new = pc.or_(pc.not_equal(documents[1:], documents[:-1]), pc.not_equal(keys[1:], keys[:-1]))
    kept = pa.concat_arrays([pa.array([True]), new])
    return zip(documents.filter(kept).to_pylist(), keys.filter(kept).to_pylist(), strict=True)


def difference(wanted: Mapping[str, str], present: Mapping[str, str]) -> Difference:
    """Compare the key that each document should have with the one that its rows carry."""
    return Difference(
        missing=[document for document, key in wanted.items() if present.get(document) != key],
        outdated=[document for document, key in present.items() if wanted.get(document) != key],
    )
