"""Readable text, written block by block, for formats whose markup is not text itself (HTML, reStructuredText)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rag_pipeline.contracts import Parsed, Span
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing.encoding import clean
from rag_pipeline.parsing.sections import Heading, build_sections

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
        self._atoms: list[Span] = []

    def block(self, text: str, *, tight: bool = False) -> None:
        """Add a paragraph, or with ``tight`` an item of a list."""
        text = clean(text)
        if text.strip():
            self._append(text, tight)

    def heading(self, level: int, title: str) -> None:
        """Add a heading on a line of its own, written in Markdown's style.

        Levels count from 1; 0 is the title of a page, which stands above all of them.
        """
        title = " ".join(clean(title).split())
        if title:
            start, end = self._append(f"{'#' * max(1, min(level, _DEEPEST_HEADING))} {title}", tight=False)
            self._headings.append(Heading(start, end, level, title))

    def code(self, text: str, language: str = "") -> None:
        """Add a code block in a fence, its lines as they are."""
        text = clean(text).strip("\n")
        if text.strip():
            fence = max((match.group(1) for match in _FENCE_LINES.finditer(text)), key=len, default="")
            fence = "`" * max(3, len(fence) + 1) if fence else "```"
            self._atoms.append(Span(**self._span(f"{fence}{language}\n{text}\n{fence}")))

    def rows(self, rows: Sequence[Sequence[str]]) -> None:
        """Add a table, a line a row and ``|`` between cells."""
        lines = [" | ".join(cells).strip(" |") for cells in rows if any(cells)]
        if lines:
            self._atoms.append(Span(**self._span(clean("\n".join(lines)))))

    @property
    def top_heading(self) -> str | None:
        """The first heading of level 1."""
        return next((heading.title for heading in self._headings if heading.level == 1), None)

    @property
    def blocks(self) -> int:
        """How many blocks there are so far."""
        return (len(self._parts) + 1) // 2

    def build(self, media_type: str, title: str | None, metadata: dict[str, Any]) -> Parsed:
        """The document.

        Raises:
            ParseError: no block holds any text.
        """
        text = "".join(self._parts)
        if not text.strip():
            raise ParseError("holds markup, but no text")
        return Parsed(
            text=text,
            media_type=media_type,
            title=title,
            sections=build_sections(text, self._headings),
            atoms=tuple(self._atoms),
            metadata=metadata,
        )

    def _span(self, text: str) -> dict[str, int]:
        start, end = self._append(text, tight=False)
        return {"start": start, "end": end}

    def _append(self, text: str, tight: bool) -> tuple[int, int]:
        if self._parts:
            separator = "\n" if tight and self._tight else "\n\n"
            self._parts.append(separator)
            self._length += len(separator)
        self._tight = tight
        start = self._length
        self._parts.append(text)
        self._length += len(text)
        return start, self._length
