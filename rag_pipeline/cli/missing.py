"""Why a document is not among the hits, in words."""

from __future__ import annotations

from collections.abc import Iterator

from rag_pipeline.query import MissingExplanation, Place
from rag_pipeline.wording import counted


def missing_lines(missing: MissingExplanation) -> Iterator[str]:
    """The lines that `rag-pipeline explain --expect` shows."""
    yield f"{missing.document_id}: {_verdict(missing)}"
    if missing.stale:
        yield f"     stale: its present version could not be read ({missing.stored_reason}); an older one is searched"
    for name in ("vector", "bm25", "fused", "reranked"):
        place: Place | None = getattr(missing, name)
        if place is not None:
            yield f"     {name:<9}{_described(place)}"
    for term in missing.terms:
        held = f"in {term.chunks_of_document} of its chunks" if term.chunks_of_document else "in none of its chunks"
        yield f"     {term.term}: {held}, in {term.chunks_with_term} of the corpus"


def _verdict(missing: MissingExplanation) -> str:
    if missing.verdict == "unknown":
        like = f"; like it: {', '.join(missing.similar)}" if missing.similar else ""
        return f"the snapshot has no document of this id{like}"
    if missing.verdict == "failed":
        return f"it could not be read: {missing.stored_reason}"
    if missing.verdict == "unpublished":
        return "it is in the store, but not in this snapshot: refresh, or search the newest one"
    if missing.verdict == "empty":
        return "it is in the snapshot, and has no text that could be found"
    if missing.verdict == "filtered":
        return f"the condition holds for none of its {counted(missing.chunks, 'chunk')}; without it they stand here:"
    last = missing.reranked or missing.fused or missing.vector or missing.bm25
    if last is None or last.rank is None:
        return f"none of its {counted(missing.chunks_allowed, 'chunk')} comes into the list that hits are taken from"
    return f"the best of its {counted(missing.chunks_allowed, 'chunk')} stands at rank {last.rank}"


def _described(place: Place) -> str:
    if place.rank is None:
        return f"not among the {place.looked_at} that it ranks"
    shown = f", shown as {place.shown_as}, which holds the same text" if place.shown_as is not None else ""
    return f"rank {place.rank} of {place.looked_at}, score {place.score:.4f}, chunk {place.chunk_id}{shown}"
