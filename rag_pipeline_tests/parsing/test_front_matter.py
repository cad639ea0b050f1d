"""YAML before a document."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.parsing.front_matter import read_front_matter
from rag_pipeline.parsing.markdown import parse_markdown


def metadata(block: str) -> dict[str, Any]:
    return parse_markdown(f"---\n{block}\n---\ntext").metadata


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("created: 2026-07-30", {"created": "2026-07-30"}),
        ("updated: 2026-07-30 10:15:00", {"updated": "2026-07-30T10:15:00"}),
        ("at: 2026-07-30T10:15:00Z", {"at": "2026-07-30T10:15:00+00:00"}),
        ("seen: [2026-07-30, other]", {"seen": ["2026-07-30", "other"]}),
        ("day: 2026-13-45", {"day": "2026-13-45"}),
        ("draft: no", {"draft": False}),
        ("empty:", {"empty": None}),
        ("time: 10:15", {"time": "10:15"}),
        ("duration: 1:10:15.5", {"duration": "1:10:15.5"}),
        ("n: 7\nf: 1.5\nnan: .nan\ninf: -.inf", {"n": 7, "f": 1.5, "nan": None, "inf": None}),
        ("7: a\ntrue: b\n2024-01-01: c\nnull: d", {"7": "a", "true": "b", "2024-01-01": "c", "null": "d"}),
        ("tags: !!set {b, a}", {"tags": ["a", "b"]}),
        ("raw: !!binary aGk=", {"raw": None}),
        ("value: !custom x\nmap: !env {a: [1]}\nlist: !l [1]", {"value": "x", "map": {"a": [1]}, "list": [1]}),
        ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        ("# comment\nlang: en", {"lang": "en"}),
        ("a: !!bool maybe\nb: !!timestamp soon\nc: !!int ''\nd: !!float x", {"a": "maybe", "b": "soon", "c": "", "d": "x"}),
        ('quoted: "\\0a"', {"quoted": "a"}),
    ],
)
def test_values_become_what_json_holds(block: str, expected: dict[str, Any]) -> None:
    assert metadata(block) == expected
    json.dumps(metadata(block), allow_nan=False).encode()


@pytest.mark.parametrize(
    "text",
    [
        "---\na: 1\n---\nbody",
        "---  \na: 1\n---\t\nbody",
        "---\na: 1\n...\nbody",
        "---\na: |\n  ---\n  x\n---\nbody",
        "---\n---\nbody",
    ],
)
def test_the_block_ends_at_the_next_line_of_dashes_or_dots(text: str) -> None:
    assert parse_markdown(text).text == "body"


@pytest.mark.parametrize(
    "text",
    [
        "---\n\nA break opens this: document\n\n---\nmore",
        "---\nJust a sentence.\n---\nmore",
        "---\n- a\n- list\n---\nmore",
        "---\n# A heading\n---\nmore",
        "---\ntitle: never closed\n\nmore",
        " ---\ntitle: indented\n---\nmore",
        "\n---\ntitle: later\n---\nmore",
        "----\ntitle: four\n----\nmore",
    ],
)
def test_what_is_no_front_matter_is_text(text: str) -> None:
    parsed = parse_markdown(text)
    assert parsed.text == text
    assert parsed.metadata == {}


@pytest.mark.parametrize(
    "block",
    [
        "title: Part 1: the start",
        "title: 'open",
        "- %\na: b",
        "{{ template }}: x",
        "a: b: c",
        "? [x]\n: y\nz: [",
        "a: *nowhere",
        "key: @at",
    ],
)
def test_a_block_that_is_no_yaml_loses_nothing(block: str) -> None:
    parsed = parse_markdown(f"---\n{block}\n---\n# Real heading\n\nbody")
    assert block in parsed.text
    assert parsed.metadata == {}
    assert parsed.sections[-1].heading_path == ("Real heading",)


def test_a_block_that_is_no_yaml_holds_no_heading() -> None:
    parsed = parse_markdown("---\ntitle: a: b\n# comment\nauthor: x\n---\nbody")
    assert [section.heading_path for section in parsed.sections] == [()]


@pytest.mark.parametrize(
    "block",
    [
        "a: " + "[" * 100_000,
        "a: &a [*a]",
        "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]),
    ],
    ids=["nested", "recursive", "exponential"],
)
def test_hostile_yaml_is_text(block: str) -> None:
    parsed = parse_markdown(f"---\n{block}\n---\nbody")
    assert parsed.metadata == {}
    assert parsed.text.endswith("---\nbody")


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n:-[]{}&*!|>'\"#%@`, ")))
def test_no_block_stops_a_document(block: str) -> None:
    front_matter = read_front_matter(f"---\n{block}\n---\nbody")
    assert 0 <= front_matter.text_start <= front_matter.body_start
    json.dumps(front_matter.metadata, allow_nan=False).encode()


def test_a_number_that_python_cannot_write_stays_text() -> None:
    digits = "0x" + "f" * 5_000
    found = read_front_matter(f"---\nhex: {digits}\nlist: [{digits}]\nsmall: 0xff\n---\n").metadata
    assert found == {"hex": digits, "list": [digits], "small": 255}
