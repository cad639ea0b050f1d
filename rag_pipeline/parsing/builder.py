"""Readable text, written block by block, for formats whose markup is not text itself (HTML, PDF, Office)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rag_pipeline.contracts import Parsed, Span
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing.encoding import clean
from rag_pipeline.parsing.no_text import ONLY_MARKUP
from rag_pipeline.parsing.sections import Heading, PageStart, build_sections
from rag_pipeline.parsing.tables import table_parts
from rag_pipeline.parsing.typography import plain_letters

_DEEPEST_HEADING = 6
_FENCE_LINES = re.compile(r"^\s*(`{3,})", re.MULTILINE)


class TextBuilder:
    """Collects the blocks of a document and remembers where headings and atoms lie.

    Blocks are parted by a blank line, tight ones (items of a list) by a line end.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._tight = False
        self._headings: list[Heading] = []
        self._pages: list[PageStart] = []
        self._page_due: int | None = None
        self._atoms: list[Span] = []
        self._losses: list[str] = []

    def page(self, number: int) -> None:
        """What follows stands on this page, slide or sheet; they count from 1."""
        self._page_due = number

    def loss(self, what: str) -> None:
        """Note what of the document could not be read."""
        self._losses.append(what)

    def block(self, text: str, *, tight: bool = False) -> int | None:
        """Add a paragraph, or with ``tight`` an item of a list. Returns where it starts, None where it is blank."""
        text = plain_letters(clean(text))
        return self._append(text, tight)[0] if text.strip() else None

    def heading(self, level: int, title: str) -> None:
        """Add a heading on a line of its own, written in Markdown's style.

        Levels count from 1; 0 is the title of a page, which stands above all of them.
        """
        title = " ".join(plain_letters(clean(title)).split())
        if title:
            start, end = self._append(f"{'#' * max(1, min(level, _DEEPEST_HEADING))} {title}", tight=False)
            self._headings.append(Heading(start, end, level, title))

    def heading_at(self, start: int, level: int, title: str) -> None:
        """Note a heading that stands in the text already, not before the last one noted."""
        title = " ".join(plain_letters(clean(title)).split())
        if title and (not self._headings or start >= self._headings[-1].start):
            self._headings.append(Heading(start, start, level, title))

    def code(self, text: str, language: str = "") -> None:
        """Add a code block in a fence, its lines as they are."""
        text = clean(text).strip("\n")
        if text.strip():
            fence = max((match.group(1) for match in _FENCE_LINES.finditer(text)), key=len, default="")
            fence = "`" * max(3, len(fence) + 1) if fence else "```"
            self._atoms.append(Span(**self._span(f"{fence}{language}\n{text}\n{fence}")))

    def rows(self, rows: Sequence[Sequence[str]]) -> None:
        """Add a table, a line a row and ``|`` between cells; its first row is repeated where the table is long."""
        for part in table_parts(rows):
            self._atoms.append(Span(**self._span(plain_letters(clean(part)))))

    @property
    def top_heading(self) -> str | None:
        """The first heading of level 1."""
        return next((heading.title for heading in self._headings if heading.level == 1), None)

    @property
    def blocks(self) -> int:
        """How many blocks there are so far."""
        return (len(self._parts) + 1) // 2

    @property
    def losses(self) -> tuple[str, ...]:
        """What was noted as lost so far."""
        return tuple(self._losses)

    @property
    def length(self) -> int:
        """How many characters there are so far."""
        return self._length

    def build(self, media_type: str, title: str | None, metadata: dict[str, Any]) -> Parsed:
        """The document.

        Raises:
            ParseError: no block holds any text.
        """
        text = "".join(self._parts)
        if not text.strip():
            raise ParseError(f"damaged: {self._losses[0]}" if self._losses else ONLY_MARKUP)
        return Parsed(
            text=text,
            media_type=media_type,
            title=title,
            sections=build_sections(text, self._headings, self._pages),
            atoms=tuple(self._atoms),
            metadata=metadata,
            losses=tuple(self._losses),
        )

    def _span(self, text: str) -> dict[str, int]:
        start, end = self._append(text, tight=False)
        return {"start": start, "end": end}

    def _append(self, text: str, tight: bool) -> tuple[int, int]:
        if self._parts:
            separator = "\n" if tight and self._tight and self._page_due is None else "\n\n"
            self._parts.append(separator)
            self._length += len(separator)
        self._tight = tight
        start = self._length
        if self._page_due is not None:
            self._pages.append(PageStart(start, self._page_due))
            self._page_due = None
        self._parts.append(text)
        self._length += len(text)
        return start, self._length
