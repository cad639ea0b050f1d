"""What the `embeddings` stage leaves for the stages after it, and for the refresh that follows a crash."""

from __future__ import annotations

from pydantic import ValidationError

from rag_pipeline.contracts import Contract, EmbedderIdentity, EmbeddingSpend
from rag_pipeline.errors import StoreError
from rag_pipeline.files import write_atomically
from rag_pipeline.index.store import CorpusStore
from rag_pipeline.storage import StorePath

_FILE = "embedding.json"


class EmbeddingRecord(Contract):
    """``identity`` is the embedder of the snapshot in the making. ``spent`` counts since the last published snapshot."""

    identity: EmbedderIdentity
    spent: EmbeddingSpend = EmbeddingSpend()


def read_embedding_record(store: CorpusStore) -> EmbeddingRecord | None:
    """
    Raises:
        StoreError: the file is damaged.
    """
    file = _path(store)
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return EmbeddingRecord.model_validate_json(data)
    except ValidationError:
        raise StoreError(f"{file}: damaged; delete it, and refresh the corpus") from None


def write_embedding_record(store: CorpusStore, record: EmbeddingRecord) -> None:
    """Replace the record, unless it says the same already."""
    if read_embedding_record(store) != record:
        write_atomically(_path(store), record.model_dump_json(indent=1).encode(), "embedding_record")


def _path(store: CorpusStore) -> StorePath:
    return store.root / _FILE
