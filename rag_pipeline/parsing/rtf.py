"""RTF, read by striprtf."""

from __future__ import annotations

import re

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import MissingExtraError, ParseError
from rag_pipeline.parsing.builder import TextBuilder
from rag_pipeline.parsing.reasons import first_line

MEDIA_TYPE = "application/rtf"


def parse_rtf(data: bytes) -> Parsed:
    """Parse an RTF document: its paragraphs, and rows of tables with ``|`` between cells.

    Raises:
        ParseError: it cannot be read, or holds no text.
    """
    try:
        from striprtf.striprtf import rtf_to_text
    except ImportError:
        raise MissingExtraError("striprtf", "pipeline", "Reading RTF") from None
    try:
        text: str = rtf_to_text(data.decode("latin-1"), errors="replace")  # type: ignore[no-untyped-call]
    except Exception as error:  # striprtf raises what its parsing stumbles upon
        raise ParseError(f"damaged RTF: {first_line(error)}") from error
    builder = TextBuilder()
    for paragraph in re.split(r"\n\s*\n", text):
        builder.block(paragraph.strip())
    return builder.build(MEDIA_TYPE, None, {})
