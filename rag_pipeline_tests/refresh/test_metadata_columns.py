"""Declared metadata becomes typed columns; what does not fit becomes null, never something else."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.config import MetadataType
from rag_pipeline.hashing import canonical_json
from rag_pipeline.index.vector_table import ARROW_TYPES
from rag_pipeline.refresh.metadata_columns import carried, typed_column
from rag_pipeline_tests.conftest import Workspace

UTC = timezone.utc


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("string", "x", "x"),
        ("string", 7, "7"),
        ("string", True, "true"),
        ("string", ["a", "b"], "a, b"),
        ("int", 2024, 2024),
        ("int", "2024", 2024),
        ("int", 2024.0, 2024),
        ("int", 2024.5, None),
        ("int", "2024a", None),
        ("int", True, None),
        ("int", 2**63, None),
        ("int", 2**62 + 1, 2**62 + 1),
        ("float", 1, 1.0),
        ("float", "1.5", 1.5),
        ("float", "nan", None),
        ("float", "much", None),
        ("bool", True, True),
        ("bool", "yes", True),
        ("bool", "off", False),
        ("bool", 1, True),
        ("bool", "perhaps", None),
        ("timestamp", "2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("timestamp", "2026-01-31T10:00:00Z", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("timestamp", "2026-01-31T10:00:00.5+02:00", datetime(2026, 1, 31, 8, 0, 0, 500_000, tzinfo=UTC)),
        ("timestamp", 0, datetime(1970, 1, 1, tzinfo=UTC)),
        ("timestamp", "yesterday", None),
    ],
)
def test_a_value_is_converted_or_null(kind: MetadataType, value: Any, expected: Any) -> None:
    assert typed_column([value, None], kind).to_pylist() == [expected, None]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(json_values, max_size=5), st.sampled_from(list(ARROW_TYPES)))
def test_no_value_breaks_a_column(values: list[Any], kind: MetadataType) -> None:
    column = typed_column(values, kind)
    assert len(column) == len(values)
    assert column.type == ARROW_TYPES[kind]


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=50).flatmap(lambda text: st.just(text) | st.just(text * 500))))
def test_a_chunk_carries_the_shorter_fields_as_far_as_there_is_room(metadata: dict[str, str]) -> None:
    text = carried(canonical_json(metadata))
    kept = json.loads(text)
    assert len(text) <= 20_000
    assert kept.items() <= metadata.items()
    longest_kept = max((len(canonical_json({name: kept[name]})) for name in kept), default=0)
    assert all(len(canonical_json({name: metadata[name]})) >= longest_kept for name in metadata.keys() - kept.keys())
    if len(canonical_json(metadata)) <= 20_000:
        assert kept == metadata


def test_a_page_of_html_beside_a_text_is_not_carried_by_each_of_its_chunks(workspace: Workspace) -> None:
    record = {"id": "a", "text": "Refunds take five days. " * 400, "lang": "en", "html": "<p>Refunds</p>" * 20_000}
    workspace.corpus(
        yaml="source: {path: files, format: jsonl}\nmetadata: {lang: string, html: string}\n",
        files={"a.jsonl": json.dumps(record)},
    )
    workspace.refresh()
    index = workspace.index()
    hits = index.search("refunds", where="lang = 'en' AND html IS NULL")
    assert len(hits) > 1
    assert {canonical_json(hit.metadata) for hit in hits} == {'{"lang":"en"}'}
