"""Markdown: the text is the file without its front matter, character for character."""

from __future__ import annotations

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing.front_matter import read_front_matter, title_of
from rag_pipeline.parsing.markdown_blocks import find_blocks
from rag_pipeline.parsing.no_text import ONLY_FRONT_MATTER
from rag_pipeline.parsing.sections import build_sections

MEDIA_TYPE = "text/markdown"


def parse_markdown(text: str) -> Parsed:
    """Parse a decoded Markdown file.

    The title is the one in the front matter, otherwise the first heading of level 1. Atoms are fences, ``<pre>`` blocks
    and tables.

    Raises:
        ParseError: there is no text beside the front matter.
    """
    front_matter = read_front_matter(text)
    body = text[front_matter.text_start :]
    if not body.strip():
        raise ParseError(ONLY_FRONT_MATTER)
    blocks = find_blocks(body, front_matter.body_start - front_matter.text_start)
    top = next((heading.title for heading in blocks.headings if heading.level == 1), None)
    return Parsed(
        text=body,
        media_type=MEDIA_TYPE,
        title=title_of(front_matter.metadata) or top,
        sections=build_sections(body, blocks.headings),
        atoms=tuple(blocks.atoms),
        metadata=front_matter.metadata,
    )
