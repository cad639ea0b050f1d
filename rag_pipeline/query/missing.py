"""Why a document that was expected is not among the hits."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rag_pipeline.index.store import DOCUMENTS, CorpusStore
from rag_pipeline.lance import read_keys, sql_string
from rag_pipeline.query.explanation import MissingExplanation, Place, TermPresence
from rag_pipeline.query.ranking import Ints, TextGroups

if TYPE_CHECKING:
    from rag_pipeline.query.snapshot_reader import SnapshotReader

_SIMILAR = 5
_COMPARED = 20_000
"""Ids that are compared letter by letter with one that is not there, which takes a second."""


class RankedRows(NamedTuple):
    """One list of a search, best first."""

    rows: Sequence[int]
    scores: Sequence[float]


def explain_missing(
    reader: SnapshotReader, text: str, document_id: str, mode: str, where: str | None, rerank: str | None
) -> MissingExplanation:
    """See `Index.explain_missing`."""
    state = _stored_state(reader.store, document_id)
    if document_id not in reader.manifest.content.documents:
        return _not_in_snapshot(reader, document_id, state)
    stale = state is not None and state[0] == "stale"
    told: dict[str, Any] = {
        "document_id": document_id,
        "stale": stale,
        "stored_reason": state[1] if stale and state else None,
    }
    mask = reader.filter.mask(f"document_id = {sql_string(document_id)}")
    rows = np.flatnonzero(mask)
    if not len(rows):
        return MissingExplanation(verdict="empty", **told)
    allowed = rows if where is None else np.flatnonzero(mask & reader.filter.mask(where))
    filtered = not len(allowed)
    lists = reader.ranked_lists(text, mode, None if filtered else where, rerank)
    counted = rows if filtered else allowed
    return MissingExplanation(
        verdict="filtered" if filtered else "ranked",
        chunks=len(rows),
        chunks_allowed=len(allowed),
        terms=_terms(reader, text, rows),
        **{name: _place(reader, ranked, counted, document_id) for name, ranked in lists.items()},
        **told,
    )


def _stored_state(store: CorpusStore, document_id: str) -> tuple[str, str | None] | None:
    """The status of a document in the store as it is now, and the reason that stands beside it; None for no document."""
    table = store.table(DOCUMENTS)
    if table is None:
        return None
    found = read_keys(table, ["status", "reason"], "document_id", [document_id]).to_pylist()
    return (found[0]["status"], found[0]["reason"]) if found else None


def _not_in_snapshot(reader: SnapshotReader, document_id: str, state: tuple[str, str | None] | None) -> MissingExplanation:
    if state is None:
        similar = _similar(document_id, list(reader.manifest.content.documents))
        return MissingExplanation(document_id=document_id, verdict="unknown", similar=similar)
    status, reason = state
    verdict = "failed" if status == "failed" else "unpublished"
    return MissingExplanation(document_id=document_id, verdict=verdict, stored_reason=reason)


def _similar(document_id: str, known: list[str]) -> tuple[str, ...]:
    """Ids that end or contain what was asked for, else those that are spelled alike."""
    wanted = document_id.lower()
    name = wanted.rsplit("/", 1)[-1]
    like = [one for one in known if wanted in one.lower() or one.lower().rsplit("/", 1)[-1] == name]
    if not like:
        like = difflib.get_close_matches(document_id, known[:_COMPARED], n=_SIMILAR)
    return tuple(sorted(like, key=lambda one: (len(one), one))[:_SIMILAR])


def _place(reader: SnapshotReader, ranked: RankedRows, rows: Ints, document_id: str) -> Place:
    """Where the first of a document's texts stands; identical texts of several documents have one place."""
    groups: TextGroups = reader.groups
    codes = groups.codes[np.asarray(ranked.rows, dtype=np.int64)]
    found = np.flatnonzero(np.isin(codes, groups.codes[rows]))
    if not len(found):
        return Place(rank=None, score=None, chunk_id=None, looked_at=len(codes))
    first = int(found[0])
    own = rows[groups.codes[rows] == codes[first]]
    best = int(own[np.argmin(groups.tie_ranks[own])])
    chunk, shown = reader.columns.rows([best, int(ranked.rows[first])])
    return Place(
        rank=first + 1,
        score=float(ranked.scores[first]),
        chunk_id=chunk["chunk_id"],
        looked_at=len(codes),
        shown_as=shown["document_id"] if shown["document_id"] != document_id else None,
    )


def _terms(reader: SnapshotReader, text: str, rows: Ints) -> tuple[TermPresence, ...]:
    held = [(term, reader.rows_with(term)) for term in dict.fromkeys(reader.terms_of(text))]
    return tuple(
        TermPresence(term=term, chunks_of_document=int(np.isin(rows, having).sum()), chunks_with_term=len(having))
        for term, having in held
    )
