"""What a refresh would do, found out without writing anything: the source is read and cut as the refresh would do it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_pipeline.contracts import Contract, Manifest
from rag_pipeline.embedding import Embedder
from rag_pipeline.embedding.budget import Budget
from rag_pipeline.embedding.cache import EmbeddingCache
from rag_pipeline.embedding.hosted.embedder import HostedEmbedder
from rag_pipeline.errors import ConfigError, CredentialsError, MissingExtraError, RagPipelineError, SourceError
from rag_pipeline.evaluation.query_set import configured_queries
from rag_pipeline.evaluation.results import read_results
from rag_pipeline.hashing import text_hash
from rag_pipeline.index.language import LanguageSample, corpus_language
from rag_pipeline.index.snapshot import served_manifest
from rag_pipeline.index.store import CHUNKS, DOCUMENTS, VECTORS
from rag_pipeline.index.vector_table import has_parents, same_identity, same_layout, vector_schema
from rag_pipeline.index.working_segments import read_working_segments
from rag_pipeline.lance import read, read_keys, scan_keys
from rag_pipeline.refresh.bm25_index import language_before, lexical_key, sampled_texts
from rag_pipeline.refresh.candidate import model_access
from rag_pipeline.refresh.chunks import DOCUMENT_COLUMNS, chunk_key, wanted_chunk_keys
from rag_pipeline.refresh.context import RefreshContext, chain_error
from rag_pipeline.refresh.context_lines import context_writer
from rag_pipeline.refresh.cutting import cut_documents
from rag_pipeline.refresh.document_rows import FAILED, Row
from rag_pipeline.refresh.document_state import DocumentsState, parse_key
from rag_pipeline.refresh.documents import load_source, removed_documents
from rag_pipeline.refresh.embeddings import indexed_text
from rag_pipeline.refresh.reasons import changed_settings, lexical_settings, retrieval_settings
from rag_pipeline.refresh.reconcile import keys_by_document
from rag_pipeline.refresh.reports import DocumentsReport


class RefreshPlan(Contract):
    """``stops`` is why the refresh would stop before it publishes, or None. ``reasons`` say what makes for work."""

    corpus: str
    documents: DocumentsReport | None
    documents_to_chunk: int
    chunks_to_add: int
    texts_to_embed: int
    tokens_to_embed: int
    cost_usd: float | None
    embedder: str
    reasons: tuple[str, ...]
    stops: str | None
    context_lines_to_write: int = 0


def plan_refresh(context: RefreshContext) -> RefreshPlan:
    """Load, cut and count, and compare with the store."""
    state = DocumentsState(context.store)
    counter = _Counter(context)
    stops, report, removed = _query_set_stops(context), None, []
    try:
        loader = load_source(context, state, counter)
        removed = removed_documents(context, state, loader)
        report = loader.report(removed)
    except SourceError as error:
        stops = stops or str(error).removeprefix(f"{context.corpus.name}: ")
    gone = {known.document_id for known in removed}
    counter.add_unchanged(gone)
    texts, tokens = counter.to_embed()
    return RefreshPlan(
        corpus=context.corpus.name,
        documents=report,
        documents_to_chunk=counter.documents,
        chunks_to_add=counter.chunks,
        texts_to_embed=texts,
        tokens_to_embed=tokens,
        cost_usd=_cost(context, tokens),
        embedder=str(context.embedder.identity),
        reasons=(*_reasons(context, state), *_lexical_reasons(context, counter, gone)),
        stops=stops or _embedding_stops(context, texts, tokens),
        context_lines_to_write=counter.context_lines,
    )


def _query_set_stops(context: RefreshContext) -> str | None:
    try:
        configured_queries(context.corpus)
    except ConfigError as error:
        return str(error)
    return None


def _embedding_stops(context: RefreshContext, texts: int, tokens: int) -> str | None:
    """What would stop the refresh before it has embedded everything, as far as that is known without asking anybody."""
    try:
        context.check_prices()
    except ConfigError as error:
        return str(error)
    if not texts:
        return None
    limits = context.corpus.budget
    failures: list[RagPipelineError] = []
    for member in context.members:
        if isinstance(member, RagPipelineError):
            failures.append(member)
            continue
        price: float | None = 0.0
        if isinstance(member, HostedEmbedder):
            price = member.usd_per_token
            try:
                member.check_credentials()
            except (CredentialsError, MissingExtraError) as error:
                failures.append(error)
                continue
        overrun = Budget(limits.tokens_per_refresh, limits.usd_per_refresh, price).overrun(tokens)
        return f"would stop at the budget: {overrun}" if overrun is not None else None
    return str(chain_error(context.corpus.name, failures)).removeprefix(f"{context.corpus.name}: ")


def _cost(context: RefreshContext, tokens: int) -> float | None:
    """What a provider takes for so many tokens; None where no price is known."""
    if not isinstance(context.embedder, HostedEmbedder):
        return 0.0
    price = context.embedder.usd_per_token
    return None if price is None else price * tokens


class _Counter:
    """A writer that cuts what it is given, counts, and keeps nothing but hashes."""

    def __init__(self, context: RefreshContext) -> None:
        self._context = context
        self._tokens: dict[str, int] = {}
        self._given: set[str] = set()
        self._gone: set[str] = set()
        self._cut_anew: set[str] = set()
        self._present = self._present_keys()
        self.documents = self.chunks = 0
        self.cut: set[str] = set()
        self.sample = LanguageSample()
        self._writer = context_writer(context)

    @property
    def context_lines(self) -> int:
        """How many lines a chat model would be asked for."""
        return self._writer.missing if self._writer is not None else 0

    def put(self, row: Row) -> None:
        name = row["document_id"]
        self._given.add(name)
        if row["status"] != FAILED and self._present.get(name) != chunk_key(self._context, row["layout_hash"]):
            self._cut(row)

    def mark_stale(self, document_id: str, reason: str) -> None: ...

    def put_item(self, row: Row) -> None: ...

    def flush_documents(self) -> None: ...

    def flush(self) -> None: ...

    def delete(self, document_ids: list[str], paths: list[str]) -> None: ...

    def add_unchanged(self, removed: set[str]) -> None:
        """The documents that stay as they are, and are cut again because a configuration has changed."""
        self._gone = removed
        table = self._context.store.table(DOCUMENTS)
        if table is None:
            return
        wanted = wanted_chunk_keys(self._context, table)
        names = [
            name
            for name, key in wanted.items()
            if name not in self._given and name not in removed and (self._context.full or self._present.get(name) != key)
        ]
        for batch in scan_keys(table, DOCUMENT_COLUMNS, "document_id", names, 256) if names else ():
            for row in batch.to_pylist():
                self._cut(row)

    def to_embed(self) -> tuple[int, int]:
        """How many texts have no vector yet, and their tokens."""
        context = self._context
        cache = EmbeddingCache(context.store.embeddings, context.embedder.identity)
        self._add_kept_chunks(cache)
        missing = cache.missing(pa.array(list(self._tokens), pa.string())).to_pylist()
        return len(missing), sum(self._tokens[digest] for digest in missing)

    def _add_kept_chunks(self, cache: EmbeddingCache) -> None:
        """The texts of chunks that stay, where the embedder has none of their vectors: it is another one than before."""
        table = self._context.store.table(CHUNKS)
        if table is None:
            return
        unknown = cache.missing(pc.unique(read(table, ["content_hash"])["content_hash"]))
        if not len(unknown):
            return
        left = pa.array(sorted(self._cut_anew | self._gone), pa.string())
        columns = ["document_id", "content_hash", "context", "text"]
        for batch in scan_keys(table, columns, "content_hash", unknown.to_pylist()):
            batch = batch.filter(pc.invert(pc.is_in(batch["document_id"], value_set=left)))
            if batch.num_rows:
                texts = indexed_text(batch).to_pylist()
                counts = _tokens(self._context.embedder, texts)
                self._tokens |= dict(zip(batch["content_hash"].to_pylist(), counts, strict=True))

    def _cut(self, row: Row) -> None:
        context = self._context
        (document,) = cut_documents(context, [row], self._writer)
        texts = [chunk.indexed_text for chunk in document.chunks]
        old = self._old_texts(row["document_id"])
        self._cut_anew.add(row["document_id"])
        self.documents += 1
        self.cut.add(row["document_id"])
        for text, tokens in zip(texts, _tokens(context.embedder, texts), strict=True):
            digest = text_hash(text)
            self.chunks += digest not in old
            self._tokens[digest] = tokens
            self.sample.offer(digest, text)

    def _present_keys(self) -> dict[str, str]:
        table = self._context.store.table(CHUNKS)
        return keys_by_document(table, "chunk_key") if table is not None else {}

    def _old_texts(self, document_id: str) -> set[str]:
        table = self._context.store.table(CHUNKS)
        if table is None or document_id not in self._present:
            return set()
        return set(read_keys(table, ["content_hash"], "document_id", [document_id])["content_hash"].to_pylist())


def _tokens(embedder: Embedder, texts: list[str]) -> list[int]:
    counts = embedder.count_tokens(texts) if isinstance(embedder, HostedEmbedder) else embedder.tokenizer.count(texts)
    return [int(count) for count in counts]


def _reasons(context: RefreshContext, state: DocumentsState) -> Iterator[str]:
    corpus, store, identity = context.corpus, context.store, context.embedder.identity
    if context.full:
        yield "--full: everything is read and rebuilt"
    if any(known.parse_key != parse_key(corpus) for known in state.items.values()):
        yield "the parsers or the source's fields have changed: every item is read again"
    documents, chunks, vectors = store.table(DOCUMENTS), store.table(CHUNKS), store.table(VECTORS)
    if documents is not None and chunks is not None and _settings_changed(context, documents, chunks):
        yield "chunking or the tokenizer has changed: every document is cut again"
    if vectors is not None and not same_identity(vectors, identity):
        yield f"the embedder is now {identity}: every text without a cached vector of it is embedded"
    elif vectors is not None and not same_layout(vectors, vector_schema(identity, corpus.metadata, has_parents(vectors))):
        yield "the metadata columns have changed: the vector table is written anew, nothing is embedded for it"
    served = served_manifest(store)
    if served is None:
        return
    settings = {"lexical": lexical_settings(context, "auto"), "retrieval": retrieval_settings(context)}
    for change in changed_settings(served.content, settings):
        yield f"{change}: a snapshot that says so is published"
    if served.content.embedder == identity and served.model_access != model_access(context):
        yield "the model is reached elsewhere: a snapshot that says so is published, nothing is embedded for it"
    if _asked_anew(context, served):
        yield "the query set has changed: it is asked anew, and may choose another weight of BM25 in hybrid searches"


def _asked_anew(context: RefreshContext, served: Manifest) -> bool:
    """Whether a query set is there that what is served was not asked yet, and that chooses a weight."""
    if context.corpus.retrieval.fusion != "auto":
        return False
    try:
        queries = configured_queries(context.corpus)
    except ConfigError:  # told as what stops the refresh
        return False
    return queries is not None and read_results(context.store, served.hash, queries.kind, queries.hash) is None


def _lexical_reasons(context: RefreshContext, counter: _Counter, gone: set[str]) -> Iterator[str]:
    working = read_working_segments(context.store.bm25)
    if working is None:
        return
    language = _language(context, counter, gone, None if context.full or not working.found else working.language)
    before, rebuilt = language_before(context, working), working.lexical_key != lexical_key(language)
    if before is not None and language != before:
        built = "is" if rebuilt else "was"
        yield f"the lexical language is now {language}, before {before}: the lexical index {built} built anew"
    elif rebuilt:
        yield "the lexical configuration has changed: the lexical index is built anew"


def _language(context: RefreshContext, counter: _Counter, gone: set[str], before: str | None) -> str:
    """The language that the `bm25_index` stage will find: by the chunks that stay and by those that documents are cut in."""
    configured = context.corpus.lexical.language
    if configured != "auto":
        return configured
    if before is not None and not counter.cut and not gone:
        return before
    chunks = context.store.table(CHUNKS)
    if chunks is not None:
        for digest, text in sampled_texts(chunks, counter.cut | gone).items():
            counter.sample.offer(digest, text)
    return corpus_language(counter.sample.texts(), before)


def _settings_changed(context: RefreshContext, documents: Any, chunks: Any) -> bool:
    wanted = set(wanted_chunk_keys(context, documents).values())
    present = set(read(chunks, ["chunk_key"])["chunk_key"].unique().to_pylist())
    return bool(present) and not wanted & present
