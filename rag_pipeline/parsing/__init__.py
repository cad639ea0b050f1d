"""Bytes -> text with its structure: plain text, Markdown, HTML and reStructuredText."""

from rag_pipeline.parsing.parse import PARSER_VERSION, parse
from rag_pipeline.parsing.text import parse_text

__all__ = ["PARSER_VERSION", "parse", "parse_text"]
