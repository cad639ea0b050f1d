"""What the `evaluation` stage leaves for `snapshot` of how hybrid searches are to fuse."""

from __future__ import annotations

from pydantic import ValidationError

from rag_pipeline.contracts import Contract, TunedFusion
from rag_pipeline.evaluation.query_set import QuerySet
from rag_pipeline.files import write_atomically
from rag_pipeline.index.snapshot import served_manifest
from rag_pipeline.index.store import CorpusStore
from rag_pipeline.refresh.context import RefreshContext
from rag_pipeline.storage import StorePath

_FILE = "fusion.json"


class FusionRecord(Contract):
    """What a query set chose for a content, both by their hashes; ``fusion`` is None where it has too few queries, and the
    default for the embedder holds."""

    content: str
    query_set: str
    fusion: TunedFusion | None


def read_fusion_record(store: CorpusStore) -> FusionRecord | None:
    """None where there is none, or none that can be read: the weight is tuned again then."""
    try:
        return FusionRecord.model_validate_json(_path(store).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def fusion_record_of(context: RefreshContext, content: str, queries: QuerySet | None) -> FusionRecord | None:
    """What is known of how hybrid searches of a content are to fuse; None where its query set has not been asked yet."""
    if queries is None or context.corpus.retrieval.fusion != "auto":
        return FusionRecord(content=content, query_set="", fusion=None)
    record = read_fusion_record(context.store)
    if record is not None and (record.content, record.query_set) == (content, queries.hash):
        return record
    served = served_manifest(context.store)
    evaluated = served.evaluation.query_set if served is not None and served.evaluation is not None else None
    if served is not None and (served.hash, evaluated) == (content, queries.hash):
        return FusionRecord(content=content, query_set=queries.hash, fusion=served.fusion)
    return None


def write_fusion_record(store: CorpusStore, record: FusionRecord) -> None:
    """Replace the record, unless it says the same already."""
    if read_fusion_record(store) != record:
        write_atomically(_path(store), record.model_dump_json(indent=1).encode(), "fusion_record")


def _path(store: CorpusStore) -> StorePath:
    return store.root / _FILE
