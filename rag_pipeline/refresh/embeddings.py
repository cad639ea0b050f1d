"""Stage `embeddings`: make the embedding cache hold a vector for every distinct text of the chunks table.

Batches are stored as they are finished, so that a refresh that is killed pays again for one batch at most.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_pipeline.errors import StoreError
from rag_pipeline.index.store import CHUNKS, VECTORS
from rag_pipeline.index.vector_table import same_identity
from rag_pipeline.lance import read, scan_keys
from rag_pipeline.refresh.context import RefreshContext
from rag_pipeline.refresh.garbage import collects_own_garbage
from rag_pipeline.refresh.reports import EmbeddingsReport


@collects_own_garbage
def refresh_embeddings(context: RefreshContext) -> EmbeddingsReport:
    """Embed the texts that have no vector of the corpus's embedder yet.

    Raises:
        StoreError: the chunks stage has not run yet.
        EmbeddingError: the model cannot be loaded or refuses its input.
    """
    chunks = context.store.table(CHUNKS)
    if chunks is None:
        raise StoreError(f"{context.corpus.name}: there is no chunks table yet; run its `chunks` stage first")
    embedder = context.embedder
    cache = context.embedding_cache
    hashes = pc.unique(read(chunks, ["content_hash"])["content_hash"])
    missing = cache.missing(hashes)
    fresh = len(hashes) - (0 if context.full else _in_vector_table(context, hashes))
    context.reporter.begin(context.corpus.name, "embeddings", len(missing), "texts")
    tokens, seconds = 0, 0.0
    for batch in _texts(chunks, missing, embedder.batch_size):
        started = time.perf_counter()
        texts = batch["indexed_text"].to_pylist()
        vectors = embedder.embed_documents(texts)
        seconds += time.perf_counter() - started
        tokens += int(embedder.tokenizer.count(texts).sum())
        cache.add(batch["content_hash"], vectors)
        context.reporter.advance(len(texts))
    cache.tidy()
    report = EmbeddingsReport(
        texts=len(hashes),
        embedded=len(missing),
        cached=max(fresh - len(missing), 0),
        tokens=tokens,
        embed_seconds=round(seconds, 3),
        identity=str(embedder.identity),
    )
    context.reporter.end(f"{report.embedded} texts embedded, {report.cached} found in the cache")
    return report


def _in_vector_table(context: RefreshContext, hashes: pa.Array) -> int:
    """How many of these texts the vector table holds already, with vectors of this embedder."""
    table = context.store.table(VECTORS)
    if table is None or not same_identity(table, context.embedder.identity):
        return 0
    return int(pc.sum(pc.is_in(hashes, value_set=read(table, ["content_hash"])["content_hash"])).as_py() or 0)


def indexed_text(batch: pa.RecordBatch) -> pa.Array:
    """Context line and text of each chunk as one text: what is embedded and put into the lexical index."""
    context = batch["context"].cast(pa.large_utf8())
    joined = pc.binary_join_element_wise(context, batch["text"], pa.scalar("\n", pa.large_utf8()))
    return pc.if_else(pc.equal(pc.binary_length(context), 0), batch["text"], joined)


def _texts(chunks: Any, missing: pa.Array, batch_size: int) -> Iterator[pa.RecordBatch]:
    """Each missing text once, as many at a time as suit the embedder."""
    if not len(missing):
        return
    done: set[str] = set()
    schema = pa.schema([("content_hash", pa.string()), ("indexed_text", pa.large_utf8())])
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in scan_keys(chunks, ["content_hash", "context", "text"], "content_hash", missing.to_pylist()):
        fresh = []
        for content_hash in batch["content_hash"].to_pylist():
            fresh.append(content_hash not in done)
            done.add(content_hash)
        batch = batch.filter(pa.array(fresh))
        pending.append(pa.record_batch([batch["content_hash"], indexed_text(batch)], schema=schema))
        rows += batch.num_rows
        while rows >= batch_size:
            whole = pa.Table.from_batches(pending, schema).combine_chunks()
            yield whole.slice(0, batch_size).to_batches()[0]
            pending = whole.slice(batch_size).to_batches()
            rows -= batch_size
    if rows:
        yield pa.Table.from_batches(pending, schema).combine_chunks().to_batches()[0]
