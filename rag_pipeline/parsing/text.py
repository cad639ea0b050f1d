"""Plain text, and everything else that is read as it stands: tables in CSV, logs, configuration, source code."""

from __future__ import annotations

from typing import Any

from rag_pipeline.contracts import Parsed, Section
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing.encoding import clean
from rag_pipeline.parsing.no_text import ONLY_WHITE_SPACE

_MEDIA_TYPES = {
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson",
    ".xml": "application/xml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}


def text_media_type(suffix: str) -> str:
    """The media type of a text by the suffix of its name; ``text/plain`` where it says nothing more."""
    return _MEDIA_TYPES.get(suffix, "text/plain")


def parse_text(
    text: str, media_type: str = "text/plain", title: str | None = None, metadata: dict[str, Any] | None = None
) -> Parsed:
    """A document of one section, its text as it stands after clean-up. Rows of a source become documents through this.

    Raises:
        ParseError: the text is blank.
    """
    text = clean(text)
    if not text.strip():
        raise ParseError(ONLY_WHITE_SPACE)
    return Parsed(
        text=text,
        media_type=media_type,
        title=title,
        sections=(Section(start=0, end=len(text)),),
        metadata=metadata or {},
    )
