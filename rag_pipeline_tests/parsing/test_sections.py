"""Headings become sections."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.parsing.sections import Heading, build_sections


def sections(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """Sections of a text whose lines of ``#`` are headings, as their text and path."""
    headings = [
        Heading(match.start(), match.end(), len(match[1]), match[2].strip())
        for match in re.finditer(r"^(#+) (.*)$", text, re.MULTILINE)
    ]
    return [(text[section.start : section.end], section.heading_path) for section in build_sections(text, headings)]


def test_a_path_holds_all_levels_from_the_top() -> None:
    assert sections("# A\na\n## B\nb\n### C\nc\n## D\nd\n# E\ne") == [
        ("# A\na\n", ("A",)),
        ("## B\nb\n", ("A", "B")),
        ("### C\nc\n", ("A", "B", "C")),
        ("## D\nd\n", ("A", "D")),
        ("# E\ne", ("E",)),
    ]


def test_text_before_the_first_heading_has_no_path() -> None:
    assert sections("before\n# A\na") == [("before\n", ()), ("# A\na", ("A",))]
    assert sections("\n \n# A\na") == [("# A\na", ("A",))]
    assert sections("no heading") == [("no heading", ())]


def test_a_level_may_be_skipped_and_the_first_need_not_be_the_highest() -> None:
    assert [path for _, path in sections("### A\na\n# B\nb\n#### C\nc\n## D\nd")] == [("A",), ("B",), ("B", "C"), ("B", "D")]


def test_a_heading_without_text_belongs_to_the_deeper_section_that_follows() -> None:
    assert sections("# A\n\n## B\n### C\nc\n") == [("# A\n\n## B\n### C\nc\n", ("A", "B", "C"))]


def test_a_heading_without_text_stands_alone_where_nothing_deeper_follows() -> None:
    assert sections("## A\n## B\nb\n# C\n") == [("## A\n", ("A",)), ("## B\nb\n", ("B",)), ("# C\n", ("C",))]


@given(st.lists(st.sampled_from(["# A", "## B", "### C", "text", "", "  more"]), max_size=12).map("\n".join))
def test_every_visible_character_lies_in_exactly_one_section(text: str) -> None:
    found = "".join(part for part, _ in sections(text))
    assert "".join(found.split()) == "".join(text.split())
    assert found in text
