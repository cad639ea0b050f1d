"""The comparison behind every stage: what should exist, by key, against what does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rag_pipeline.lance import read


class Difference(NamedTuple):
    """Documents whose rows are to be written, and documents whose present rows are to go."""

    missing: list[str]
    outdated: list[str]


def keys_by_document(table: Any, column: str) -> dict[str, set[str]]:
    """For each document in a table, the keys that its rows carry: one, unless something went wrong."""
    pairs = read(table, ["document_id", column]).group_by(["document_id", column]).aggregate([])
    keys: dict[str, set[str]] = {}
    for document, key in zip(pairs["document_id"].to_pylist(), pairs[column].to_pylist(), strict=True):
        keys.setdefault(document, set()).add(key)
    return keys


def difference(wanted: Mapping[str, str], present: Mapping[str, set[str]]) -> Difference:
    """Compare the key that each document should have with those that its rows carry."""
    return Difference(
        missing=[document for document, key in wanted.items() if present.get(document) != {key}],
        outdated=[document for document, keys in present.items() if keys != {wanted.get(document)}],
    )
