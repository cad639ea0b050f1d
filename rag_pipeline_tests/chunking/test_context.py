"""The line above a chunk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.chunking.context import LONGEST_CONTEXT, context_line


@pytest.mark.parametrize(
    ("title", "headings", "line"),
    [
        (None, (), ""),
        ("", ("", " "), ""),
        ("Handbook", (), "Handbook"),
        (None, ("Operations", "Backups"), "Operations > Backups"),
        ("Handbook", ("Handbook", "Backups"), "Handbook > Backups"),
        ("Handbook", ("Backups", "Handbook"), "Handbook > Backups > Handbook"),
        ("A\ntitle", ("  of   two\tlines ",), "A title > of two lines"),
    ],
)
def test_title_and_headings_stand_on_one_line(title: str | None, headings: tuple[str, ...], line: str) -> None:
    assert context_line(title, headings) == line


def test_a_long_path_keeps_its_ends() -> None:
    line = context_line("Title", [f"Heading {number} with several words" for number in range(20)])
    assert line.startswith("Title > ")
    assert line.endswith(" > Heading 19 with several words")
    assert len(line) <= LONGEST_CONTEXT


def test_a_title_of_a_paragraph_leaves_room_for_the_heading() -> None:
    line = context_line("word " * 200, ["Backups"])
    assert line.endswith("word > Backups")
    assert LONGEST_CONTEXT - 10 <= len(line) <= LONGEST_CONTEXT


@given(title=st.none() | st.text(max_size=400), headings=st.lists(st.text(max_size=300), max_size=6))
def test_a_line_is_one_line_of_bounded_length(title: str | None, headings: list[str]) -> None:
    line = context_line(title, headings)
    assert len(line) <= LONGEST_CONTEXT
    assert line == " ".join(line.split())
    assert bool(line) == bool("".join([title or "", *headings]).strip())
