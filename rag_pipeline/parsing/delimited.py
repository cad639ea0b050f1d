"""Tables in text (.csv, .tsv): rows as lines under their header, whatever the delimiter."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing.builder import TextBuilder
from rag_pipeline.parsing.tables import without_captions

MEDIA_TYPES = {".csv": "text/csv", ".tsv": "text/tab-separated-values", ".tab": "text/tab-separated-values"}

_DELIMITERS = ",;\t|"
_SAMPLE_LINES = 50
_LONGEST_FIELD = 2**31 - 1
_SAID = re.compile(r'"?sep=(.)"?\n')  # the first line of a table that Excel wrote or is to open
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def parse_delimited(text: str, suffix: str) -> Parsed:
    """Parse a decoded table. Rows may be longer or shorter than the header.

    Raises:
        ParseError: it holds no cells.
    """
    delimiter = _delimiter(text, "\t" if suffix in (".tsv", ".tab") else ",")
    if (said := _SAID.match(text)) is not None:
        delimiter, text = said[1], text[said.end() :]
    builder = TextBuilder()
    captions, table = without_captions(_rows(text, delimiter))
    if not table:
        raise ParseError("all of its cells are empty")
    for caption in captions:
        builder.block(caption)
    builder.rows(table)
    return builder.build(MEDIA_TYPES.get(suffix, "text/csv"), None, {})


def _delimiter(text: str, usual: str) -> str:
    """The delimiter that parts most of the first lines into equally many cells."""
    lines = [line for line in _QUOTED.sub("", text[:200_000]).split("\n")[:_SAMPLE_LINES] if line.strip()]
    if not lines:
        return usual

    def evenness(delimiter: str) -> tuple[int, bool, int]:
        (cells, equal), *_ = Counter(line.count(delimiter) for line in lines).most_common(1)
        return (equal if cells else 0, delimiter == usual, cells)

    return max(_DELIMITERS, key=evenness)


def _rows(text: str, delimiter: str) -> list[list[str]]:
    csv.field_size_limit(_LONGEST_FIELD)
    lines = text.count("\n") + 1
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True))
    if any(cell.count("\n") > max(20, lines // 10) for row in rows for cell in row):
        # A quotation mark that is never closed has swallowed rows.
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=csv.QUOTE_NONE))
    return [[cell.strip() for cell in row] for row in rows]
