"""Why a hit stands where it stands."""

from __future__ import annotations

from rag_pipeline.contracts import Contract, Hit


class ArmScore(Contract):
    """A hit in one arm of the search.

    ``rank`` is None when the arm did not have it among its candidates, ``score`` is None when the arm has none for it
    (it holds no query term). ``contribution`` is what fusion added for this arm.
    """

    rank: int | None
    score: float | None
    contribution: float


class TermScore(Contract):
    """One query term that the chunk holds: how often, in how many chunks, its weight, and what it added to BM25."""

    term: str
    frequency: int
    chunks_with_term: int
    idf: float
    contribution: float


class Explanation(Contract):
    """A hit, its place in each arm, and the terms that made its BM25 score. Contributions sum to the hit's score."""

    hit: Hit
    vector: ArmScore
    bm25: ArmScore
    terms: tuple[TermScore, ...]
    candidates_per_arm: int
