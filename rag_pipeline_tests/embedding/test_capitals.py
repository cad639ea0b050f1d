"""Which lines count as written in capitals."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_pipeline.embedding.capitals import lower_capital_lines

lines = st.one_of(
    st.text(alphabet="abAB é Éß1.Ǆǅ我", max_size=15), st.sampled_from(["ALL OF IT", "Some of it", "", "LIST OF ALL PDFs"])
)


def is_in_capitals(line: str) -> bool:
    """The rule, one character at a time."""
    small = sum(character.islower() for character in line)
    capitals = sum(character.isupper() for character in line)
    return line.isupper() or (capitals + small >= 10 and capitals >= 9 * small)


@settings(max_examples=300)
@given(batch=st.lists(st.lists(lines, max_size=5).map("\n".join), max_size=6))
def test_lines_in_capitals_are_lowered_and_no_others(batch: list[str]) -> None:
    expected = ["\n".join(line.lower() if is_in_capitals(line) else line for line in text.split("\n")) for text in batch]
    assert lower_capital_lines(batch) == expected


def test_every_capital_of_unicode_is_lowered() -> None:
    alone = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000 and chr(code) not in "\n"]
    assert lower_capital_lines(alone) == [character.lower() if character.isupper() else character for character in alone]


@pytest.mark.parametrize("text", ["", "\n", "123 !?", "我们", "\ud800", "\U000e0001"])
def test_a_text_without_capitals_stays_as_it_is(text: str) -> None:
    assert lower_capital_lines([text]) == [text]
