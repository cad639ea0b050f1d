"""Bytes -> text with its structure: plain text, Markdown, HTML and reStructuredText."""

from rag_pipeline.parsing.no_text import NO_TEXT_REASONS
from rag_pipeline.parsing.parse import PARSER_VERSION, parse
from rag_pipeline.parsing.text import parse_text

__all__ = ["NO_TEXT_REASONS", "PARSER_VERSION", "parse", "parse_text"]
