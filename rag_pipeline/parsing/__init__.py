"""Bytes -> text with its structure, pages included; what may harm is read in processes of its own."""

from rag_pipeline.parsing.isolation import Parsers, Parsing
from rag_pipeline.parsing.no_text import NO_TEXT_REASONS
from rag_pipeline.parsing.parse import PARSER_VERSION, parse
from rag_pipeline.parsing.text import parse_text

__all__ = ["NO_TEXT_REASONS", "PARSER_VERSION", "Parsers", "Parsing", "parse", "parse_text"]
