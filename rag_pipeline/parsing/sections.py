"""Headings and page starts -> the sections of a document."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from rag_pipeline.contracts import Section

_NOT_WHITE = re.compile(r"\S")


class Heading(NamedTuple):
    """A heading: its lines are the span ``[start, end)`` of the text, its level counts from 1."""

    start: int
    end: int
    level: int
    title: str


class PageStart(NamedTuple):
    """Where the text of a page begins; pages count from 1."""

    start: int
    page: int


def build_sections(text: str, headings: Sequence[Heading], pages: Sequence[PageStart] = ()) -> tuple[Section, ...]:
    """Cut a text at its headings and pages.

    A section begins at its heading and ends where the next one begins; what stands before the first heading has the
    path ``()``. A heading with nothing below it but a deeper heading gets no section of its own: the deeper section
    begins at it instead, so that no section is a mere heading where that can be avoided.
    """
    sections: list[Section] = []
    first = headings[0].start if headings else len(text)
    if _NOT_WHITE.search(text, 0, first):
        sections.append(Section(start=0, end=first))
    open_headings: list[Heading] = []
    waiting: int | None = None
    for position, heading in enumerate(headings):
        while open_headings and open_headings[-1].level >= heading.level:
            open_headings.pop()
        open_headings.append(heading)
        following = headings[position + 1] if position + 1 < len(headings) else None
        end = len(text) if following is None else following.start
        if following and following.level > heading.level and not _NOT_WHITE.search(text, heading.end, end):
            waiting = heading.start if waiting is None else waiting
            continue
        start = heading.start if waiting is None else waiting
        sections.append(Section(start=start, end=end, heading_path=tuple(opened.title for opened in open_headings)))
        waiting = None
    return _cut_at_pages(text, sections, pages) if pages else tuple(sections)


def _cut_at_pages(text: str, sections: Sequence[Section], pages: Sequence[PageStart]) -> tuple[Section, ...]:
    starts = [page.start for page in pages]
    pieces: list[Section] = []
    for section in sections:
        start = section.start
        place = bisect_right(starts, start)
        while start < section.end:
            end = min(section.end, starts[place]) if place < len(starts) else section.end
            page = pages[place - 1].page if place else None
            if _NOT_WHITE.search(text, start, end):
                pieces.append(Section(start=start, end=end, heading_path=section.heading_path, page=page))
            start = end
            place += 1
    return tuple(pieces)
