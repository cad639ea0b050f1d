"""Vectors of evaluation queries: a model is asked for each of them once, whatever number of refreshes evaluate.

They lie beside the corpus, apart from the embedding cache: that one holds documents, shared by all corpora, under the
hash of the text alone; many models embed a query otherwise than a document of the same words.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_pipeline.contracts import EmbedderIdentity, Tokenizer
from rag_pipeline.embedding import Embedder
from rag_pipeline.hashing import value_hash
from rag_pipeline.index.store import QUERY_VECTORS, CorpusStore
from rag_pipeline.lance import append, create, delete_keys, read

_SCHEMA = pa.schema([("query_key", pa.string()), ("vector", pa.list_(pa.float32()))])
_AT_ONCE = 4
"""Requests to a hosted model at a time. Each request holds one query; the embedder keeps to its provider's limits."""


class RememberedQueries:
    """An embedder that knows the vectors of some queries already."""

    def __init__(self, embedder: Embedder, vectors: dict[str, npt.NDArray[np.float32]]) -> None:
        self._embedder = embedder
        self._vectors = vectors

    @property
    def identity(self) -> EmbedderIdentity:
        return self._embedder.identity

    @property
    def tokenizer(self) -> Tokenizer:
        return self._embedder.tokenizer

    @property
    def batch_size(self) -> int:
        return self._embedder.batch_size

    @property
    def max_tokens(self) -> int | None:
        return self._embedder.max_tokens

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return self._embedder.embed_documents(texts)

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        known = self._vectors.get(text)
        return known if known is not None else self._embedder.embed_query(text)


def remember_queries(
    store: CorpusStore, embedder: Embedder, query_model: str | None, texts: Sequence[str]
) -> tuple[RememberedQueries, int]:
    """An embedder that has the vectors of these queries, from the store or now from the model; new ones are kept.

    Vectors of other queries, or of another model, are dropped from the store, so that it holds one query set.

    Returns:
        The embedder, and how many queries the model was asked for.
    """
    keys = {text: value_hash([embedder.identity.key, query_model, text]) for text in texts}
    table = store.table(QUERY_VECTORS)
    rows: list[dict[str, Any]] = read(table, ["query_key", "vector"]).to_pylist() if table is not None else []
    stored = {row["query_key"]: row["vector"] for row in rows}
    vectors = {text: np.asarray(stored[key], dtype=np.float32) for text, key in keys.items() if key in stored}
    missing = [text for text in keys if text not in vectors]
    if missing:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            new = dict(zip(missing, pool.map(embedder.embed_query, missing), strict=True))
        vectors |= new
        rows = [{"query_key": keys[text], "vector": vector.tolist()} for text, vector in new.items()]
        batch = pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)
        if table is None:
            table = create(store.database, QUERY_VECTORS, _SCHEMA, [batch])
        else:
            append(table, _SCHEMA, [batch])
        delete_keys(table, "query_key", sorted(stored.keys() - set(keys.values())))
    return RememberedQueries(embedder, vectors), len(missing)
