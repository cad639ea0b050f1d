"""Which BM25 segments the next snapshot will name: the one file beside the segments that is ever replaced."""

from __future__ import annotations

import json

from pydantic import ValidationError

from rag_pipeline.contracts import BM25Segment, Contract
from rag_pipeline.errors import StoreError
from rag_pipeline.files import write_atomically
from rag_pipeline.storage import StorePath

_FILE = "working.json"


class WorkingSegments(Contract):
    """``lexical_key`` is the hash over all that decides how text becomes terms: another one rebuilds everything.

    ``language`` is the one that the segments were analysed in; files of before it was kept lack it. ``found`` tells that it
    was found in the text: a language that somebody named is no reason to keep to it.
    """

    lexical_key: str
    language: str | None = None
    found: bool = True
    segments: tuple[BM25Segment, ...]


def read_working_segments(folder: StorePath) -> WorkingSegments | None:
    """What the last `bm25_index` stage left, or None when there was none yet.

    Raises:
        StoreError: the file is damaged.
    """
    file = folder / _FILE
    try:
        return WorkingSegments.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError:
        raise StoreError(f"{file}: damaged; delete it and refresh, which rebuilds the lexical index") from None


def write_working_segments(folder: StorePath, working: WorkingSegments) -> None:
    """Replace the list of segments in one step."""
    write_atomically(folder / _FILE, json.dumps(working.model_dump(mode="json"), indent=1).encode(), "working_segments")
