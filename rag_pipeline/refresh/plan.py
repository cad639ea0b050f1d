"""What a refresh would do, found out without writing anything."""

from __future__ import annotations

from rag_pipeline.contracts import Contract
from rag_pipeline.index.store import CHUNKS, DOCUMENTS, VECTORS
from rag_pipeline.index.vector_table import same_identity, same_layout, vector_schema
from rag_pipeline.index.working_segments import read_working_segments
from rag_pipeline.refresh.bm25_index import lexical_key
from rag_pipeline.refresh.chunks import wanted_chunk_keys
from rag_pipeline.refresh.context import RefreshContext
from rag_pipeline.refresh.document_state import DocumentsState, looks_unchanged, parse_key
from rag_pipeline.refresh.reconcile import difference, keys_by_document
from rag_pipeline.sources import list_items


class RefreshPlan(Contract):
    """Items are files or objects of the source; `changed` ones will be read, and may turn out equal."""

    corpus: str
    items_new: int
    items_changed: int
    items_gone: int
    items_unchanged: int
    documents_gone: int
    documents_to_chunk: int
    reasons: tuple[str, ...]


def plan_refresh(context: RefreshContext) -> RefreshPlan:
    """Compare listing, configuration and store."""
    corpus, store = context.corpus, context.store
    items, state = list_items(corpus), DocumentsState(store)
    key = parse_key(corpus)
    new = [item for item in items if item.path not in state.items]
    unchanged = [item for item in items if not context.full and looks_unchanged(item, state.items.get(item.path), key)]
    listed = {item.path for item in items}
    gone = [path for path in state.items if path not in listed]
    lost = sum(known.served for path in gone for known in state.by_path[path])
    reasons = []
    if any(known.parse_key != key for known in state.items.values()):
        reasons.append("the parsers or the source's fields have changed: every item is read again")
    documents, chunks, vectors = store.table(DOCUMENTS), store.table(CHUNKS), store.table(VECTORS)
    rechunk = 0
    if documents is not None and chunks is not None:
        present = keys_by_document(chunks, "chunk_key")
        rechunk = len(difference(wanted_chunk_keys(context, documents), present).missing)
        if rechunk:
            reasons.append(f"chunking or the tokenizer has changed: {rechunk} documents that are there are cut again")
    if vectors is not None and not same_identity(vectors, context.embedder.identity):
        reasons.append(f"the embedder is now {context.embedder.identity}: every text without a cached vector is embedded")
    elif vectors is not None and not same_layout(vectors, vector_schema(context.embedder.identity, corpus.metadata)):
        reasons.append("the metadata columns have changed: the vector table is written anew, nothing is embedded for it")
    working = read_working_segments(store.bm25)
    if working is not None and working.lexical_key != lexical_key(context):
        reasons.append("the lexical configuration has changed: the lexical index is built anew")
    if lost > corpus.safety.max_delete_fraction * state.served and not context.allow_deletes:
        reasons.append(
            f"{lost} of {state.served} documents are gone from the source: unless they were moved, the refresh stops "
            "without --allow-deletes"
        )
    return RefreshPlan(
        corpus=corpus.name,
        items_new=len(new),
        items_changed=len(items) - len(new) - len(unchanged),
        items_gone=len(gone),
        items_unchanged=len(unchanged),
        documents_gone=lost,
        documents_to_chunk=rechunk,
        reasons=tuple(reasons),
    )
