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
    """One query term that the chunk holds: how often, in how many chunks, and what it added to BM25.

    ``contribution`` is ``idf * weight``; ``weight`` grows with the frequency, less and less, shrinks with the chunk's
    length, and counts repetitions in the query.
    """

    term: str
    frequency: int
    chunks_with_term: int
    idf: float
    weight: float
    contribution: float


class RerankEffect(Contract):
    """What the reranker made of a hit.

    ``score`` is None when it was not asked about this hit, which was not among its candidates, or when it failed, as
    ``failure`` says. ``weight`` is its share of the score that ranks.
    """

    reranker: str
    score: float | None
    weight: float
    rank_before: int
    failure: str | None = None


class Explanation(Contract):
    """A hit, its place in each arm, and the terms that made its BM25 score.

    Contributions sum to ``fused_score``, which is the hit's score where no reranker gave it another.
    """

    hit: Hit
    vector: ArmScore
    bm25: ArmScore
    terms: tuple[TermScore, ...]
    candidates_per_arm: int
    fused_score: float
    rerank: RerankEffect | None = None
