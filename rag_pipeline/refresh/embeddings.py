"""Stage `embeddings`: make the embedding cache hold a vector for every distinct text of the chunks table.

Batches are stored as they are finished, so that a refresh that is killed pays again for little. The whole corpus ends
with one embedder: of a chain the first that can be had.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_pipeline.contracts import EmbedderIdentity
from rag_pipeline.embedding import Embedder
from rag_pipeline.embedding.hosted.embedder import HostedEmbedder
from rag_pipeline.errors import (
    BudgetError,
    EmbeddingError,
    MissingExtraError,
    ProviderError,
    RagPipelineError,
    RefusedTextError,
    StoreError,
)
from rag_pipeline.index.snapshot import served_manifest
from rag_pipeline.index.store import CHUNKS, VECTORS
from rag_pipeline.index.vector_table import identity_of, same_identity
from rag_pipeline.lance import read, read_keys, scan_keys
from rag_pipeline.refresh.context import RefreshContext, chain_error, naming
from rag_pipeline.refresh.embed_texts import SomeRefusedError, Spending, embed_texts
from rag_pipeline.refresh.garbage import collects_own_garbage
from rag_pipeline.refresh.reports import EmbeddingsReport

_REFUSED_SHOWN = 5
_QUOTED = 60


@collects_own_garbage
def refresh_embeddings(context: RefreshContext) -> EmbeddingsReport:
    """Embed the texts that have no vector of the corpus's embedder yet.

    Raises:
        StoreError: the chunks stage has not run yet.
        EmbeddingError: the model cannot be loaded or refuses its input.
        ProviderError: the provider failed for too long.
        BudgetError: the refresh would spend more than it may. What was embedded before is kept, as with every error.
    """
    chunks = context.store.table(CHUNKS)
    if chunks is None:
        raise StoreError(f"{context.corpus.name}: there is no chunks table yet; run its `chunks` stage first")
    hashes = pc.unique(read(chunks, ["content_hash"])["content_hash"])
    spending = Spending(context)
    try:
        return _embed_with_first(context, chunks, hashes, spending)
    finally:
        context.note_embedding(spending.of_this_refresh)


def _embed_with_first(context: RefreshContext, chunks: Any, hashes: pa.Array, spending: Spending) -> EmbeddingsReport:
    """Embed all texts with the first embedder of the chain that can be had."""
    failures: list[RagPipelineError] = []
    for member in context.members:
        if isinstance(member, RagPipelineError):
            failures.append(member)
            continue
        try:
            return _embed_all(context, member, chunks, hashes, spending, tuple(map(str, failures)))
        except (RefusedTextError, BudgetError) as error:
            if failures:
                error.args = (f"{error}. Before it could not be had: {'; '.join(map(str, failures))}",)
            raise naming(context.corpus.name, error) from None
        except (ProviderError, EmbeddingError, MissingExtraError) as error:
            failures.append(error)
    raise chain_error(context.corpus.name, failures)


def _embed_all(
    context: RefreshContext,
    embedder: Embedder,
    chunks: Any,
    hashes: pa.Array,
    spending: Spending,
    turned_from: tuple[str, ...],
) -> EmbeddingsReport:
    cache = context.embedding_cache(embedder)
    missing = cache.missing(hashes)
    vectors = context.store.table(VECTORS)
    before = _identity_before(context, vectors)
    fresh = len(hashes) - (0 if context.full else _in_vector_table(vectors, hashes, embedder.identity))
    if isinstance(embedder, HostedEmbedder) and before != embedder.identity:
        # Also with all texts in the cache: a snapshot that cannot be searched here must not be published in silence.
        embedder.check_credentials()
    context.reporter.begin(context.corpus.name, "embeddings", len(missing), "texts")
    started = time.perf_counter()
    try:
        if len(missing):
            embed_texts(embedder, _texts(chunks, missing, embedder.batch_size), cache, spending, context.reporter)
    except SomeRefusedError as refused:
        raise RefusedTextError(_refused(context, chunks, refused)) from None
    finally:
        cache.tidy()
    spending.finish(embedder.identity)
    report = EmbeddingsReport(
        texts=len(hashes),
        embedded=len(missing),
        cached=max(fresh - len(missing), 0),
        tokens=spending.tokens,
        cost_usd=spending.cost_usd,
        embed_seconds=round(time.perf_counter() - started, 3),
        identity=str(embedder.identity),
        identity_before=str(before) if before is not None and before != embedder.identity else None,
        turned_from=turned_from,
    )
    context.reporter.end(f"{report.embedded} texts embedded, {report.cached} found in the cache")
    return report


def _identity_before(context: RefreshContext, vectors: Any | None) -> EmbedderIdentity | None:
    """The embedder of what is served, or of the vectors that an earlier refresh has left where nothing is."""
    served = served_manifest(context.store)
    if served is not None:
        return served.content.embedder
    return identity_of(vectors) if vectors is not None else None


def _refused(context: RefreshContext, chunks: Any, refused: SomeRefusedError) -> str:
    """Which chunks the provider refuses, for people."""
    reasons = {found.content_hash: found.reason for found in refused.texts}
    rows = read_keys(chunks, ["content_hash", "document_id", "start", "end", "text"], "content_hash", list(reasons))
    shown = []
    for row in rows.slice(0, _REFUSED_SHOWN).to_pylist():
        quoted = " ".join(row["text"].split())[:_QUOTED]
        shown.append(
            f"document {row['document_id']!r}, characters {row['start']} to {row['end']} ({quoted!r}): "
            f"{reasons[row['content_hash']]}"
        )
    return (
        f"{context.corpus.name}: {len(reasons)} {'text was' if len(reasons) == 1 else 'texts were'} refused, all others are "
        f"embedded and kept: {'; '.join(shown)}. "
        f"Mend or exclude these documents, and refresh again"
    )


def _in_vector_table(table: Any | None, hashes: pa.Array, identity: EmbedderIdentity) -> int:
    """How many of these texts the vector table holds already, with vectors of this embedder."""
    if table is None or not same_identity(table, identity):
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
    pending = pa.Table.from_batches([], schema)
    for batch in scan_keys(chunks, ["content_hash", "context", "text"], "content_hash", missing.to_pylist()):
        fresh = []
        for content_hash in batch["content_hash"].to_pylist():
            fresh.append(content_hash not in done)
            done.add(content_hash)
        batch = batch.filter(pa.array(fresh))
        found = pa.Table.from_arrays([batch["content_hash"], indexed_text(batch)], schema=schema)
        pending = pa.concat_tables([pending, found]).combine_chunks()
        whole = pending.num_rows - pending.num_rows % batch_size
        for first in range(0, whole, batch_size):
            yield pending.slice(first, batch_size).to_batches()[0]
        pending = pending.slice(whole)
    if pending.num_rows:
        yield pending.combine_chunks().to_batches()[0]
