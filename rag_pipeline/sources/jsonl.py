"""JSON Lines: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import BinaryIO

from rag_pipeline.config import CorpusConfig
from rag_pipeline.sources.rows import BadRow, Row, make_row

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_JSON_WHITE_SPACE = b" \t\r\n"


def jsonl_rows(file: BinaryIO, corpus: CorpusConfig) -> Iterator[Row | BadRow]:
    """Read a file of JSON objects. Records end at ``\\n`` only: U+2028 or U+0085 may stand inside a string."""
    for number, line in enumerate(file, start=1):
        if number == 1:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        record = line.strip(_JSON_WHITE_SPACE)
        if record:
            yield _row(record, number, corpus)


def _row(record: bytes, number: int, corpus: CorpusConfig) -> Row | BadRow:
    try:
        values = json.loads(record.decode())
        if not isinstance(values, dict):
            return BadRow(number, f"expected a JSON object, got {type(values).__name__}")
        return make_row(values, number, corpus)
    except UnicodeDecodeError as error:
        return BadRow(number, f"not UTF-8: byte {record[error.start]:#04x} at byte {error.start + 1} of the line")
    except json.JSONDecodeError as error:
        return BadRow(number, f"not valid JSON: {error.msg} at character {error.pos + 1} of the line")
    except (ValueError, RecursionError) as error:
        # An integer of thousands of digits, or brackets nested thousands deep: valid JSON that Python will not read.
        return BadRow(number, f"not readable JSON: {error}")
