"""What the `evaluation` stage leaves for `snapshot` of how hybrid searches are to fuse."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from rag_pipeline.contracts import Contract, TunedFusion
from rag_pipeline.files import write_atomically
from rag_pipeline.index.store import CorpusStore

_FILE = "fusion.json"


class FusionRecord(Contract):
    """What a query set chose for a content, both by their hashes; ``fusion`` is None where it has too few queries."""

    content: str
    query_set: str
    fusion: TunedFusion | None


def read_fusion_record(store: CorpusStore) -> FusionRecord | None:
    """None where there is none, or none that can be read: the weight is tuned again then."""
    try:
        return FusionRecord.model_validate_json(_path(store).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def write_fusion_record(store: CorpusStore, record: FusionRecord) -> None:
    """Replace the record, unless it says the same already."""
    if read_fusion_record(store) != record:
        write_atomically(_path(store), record.model_dump_json(indent=1).encode(), "fusion_record")


def _path(store: CorpusStore) -> Path:
    return store.root / _FILE
