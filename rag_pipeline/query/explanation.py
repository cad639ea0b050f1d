"""Why a hit stands where it stands."""

from __future__ import annotations

from typing import Literal, TypeAlias

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


class AppliedFusion(Contract):
    """How both arms become one list: ``bm25_weight`` is BM25's part of the sum, None for ``rrf``.

    With ``auto`` it is fitted to each query. ``tuned`` tells that the corpus's own queries chose it.
    """

    method: Literal["auto", "convex", "rrf"]
    bm25_weight: float | None
    tuned: bool = False


class Explanation(Contract):
    """A hit, its place in each arm, and the terms that made its BM25 score.

    Contributions sum to ``fused_score``, which is the hit's score where no reranker gave it another. ``fusion`` is None
    where one arm alone was asked, and ``bm25_weight`` is the weight of BM25 in this query.
    """

    hit: Hit
    vector: ArmScore
    bm25: ArmScore
    terms: tuple[TermScore, ...]
    candidates_per_arm: int
    fused_score: float
    fusion: AppliedFusion | None = None
    bm25_weight: float | None = None
    rerank: RerankEffect | None = None


class Place(Contract):
    """A document's best chunk in one ranked list.

    ``rank`` is None where none of its chunks is in the list, of which ``looked_at`` were looked at. ``shown_as`` names
    the document that stands for it where that one holds the same text.
    """

    rank: int | None
    score: float | None
    chunk_id: str | None
    looked_at: int
    shown_as: str | None = None


class TermPresence(Contract):
    """One query term: how many chunks of the document hold it, and how many of the corpus."""

    term: str
    chunks_of_document: int
    chunks_with_term: int


Verdict: TypeAlias = Literal["unknown", "failed", "unpublished", "empty", "filtered", "ranked"]


class MissingExplanation(Contract):
    """Why a document is not among the hits, or where it stands among them.

    ``verdict``:

    - ``unknown``: the corpus has no such document; ``similar`` are ids like this one;
    - ``failed``: it never could be read; ``stored_reason`` says why;
    - ``unpublished``: it came into the store after this snapshot, or left the snapshot before;
    - ``empty``: the snapshot has it, without any text;
    - ``filtered``: the condition holds for none of its chunks; the places are those it has without the condition;
    - ``ranked``: the places say where.

    ``stale`` tells that its present version could not be read, for ``stored_reason``, so that an older one is searched.
    ``vector`` and ``bm25`` are None where the mode does not ask them, ``fused`` is None but for hybrid, ``reranked`` where
    nothing reranks. Ranks count distinct texts.
    """

    document_id: str
    verdict: Verdict
    stored_reason: str | None = None
    stale: bool = False
    similar: tuple[str, ...] = ()
    chunks: int = 0
    chunks_allowed: int = 0
    vector: Place | None = None
    bm25: Place | None = None
    fused: Place | None = None
    reranked: Place | None = None
    terms: tuple[TermPresence, ...] = ()

    @property
    def terms_lacking(self) -> tuple[str, ...]:
        """The query terms that none of its chunks holds."""
        return tuple(one.term for one in self.terms if not one.chunks_of_document)
