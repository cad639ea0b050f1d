"""The index of one corpus, as other jobs use it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from rag_pipeline.config import RetrievalConfig
from rag_pipeline.contracts import Hit, Manifest
from rag_pipeline.errors import QueryError, StoreError
from rag_pipeline.query.explanation import AppliedFusion, Explanation, MissingExplanation

if TYPE_CHECKING:
    from rag_pipeline.query.ranking import Floats
    from rag_pipeline.query.rankings import Rankings
    from rag_pipeline.query.snapshot_reader import SnapshotReader

Mode: TypeAlias = Literal["hybrid", "vector", "bm25"]
MODES: tuple[Mode, ...] = ("hybrid", "vector", "bm25")

DEFAULT_MEMORY_BUDGET = 4 * 1024**3


class Index:
    """One snapshot of a corpus, opened for search. Made by :meth:`open`.

    Safe to share between threads. It goes on reading its snapshot while refreshes publish newer ones;
    :meth:`refresh` moves on.
    """

    def __init__(self, reader: SnapshotReader, pinned: bool, expect: str | None) -> None:
        self._reader = reader
        self._pinned = pinned
        self._expect = expect

    @classmethod
    def open(
        cls,
        corpus: str,
        *,
        data: str | os.PathLike[str] | None = None,
        snapshot: int | None = None,
        expect: str | None = None,
        memory_budget: int = DEFAULT_MEMORY_BUDGET,
    ) -> Index:
        """Open what is served of a corpus, or one snapshot of it.

        Args:
            data: the data root; by default the variable RAG_PIPELINE_DATA, or the folder `data`.
            snapshot: pins a snapshot by number.
            expect: the manifest hash ("sha256:…") that the snapshot must have. It is that of content and settings: the
                weight that a query set has chosen for hybrid searches is not part of it.
            memory_budget: bytes that vectors may take in memory, and again as many for texts. Within it a search is
                exact and in memory; what exceeds it is searched in and read from the table on disk.

        Raises:
            SnapshotNotFoundError: nothing was published yet, or not this number.
            StoreError: the store is damaged, or the snapshot has another hash than expected.
            IdentityMismatchError: the embedder that made the vectors cannot be loaded here.
        """
        from rag_pipeline.query.snapshot_reader import SnapshotReader

        reader = SnapshotReader.open(corpus, data, snapshot, memory_budget)
        index = cls(reader, pinned=snapshot is not None, expect=expect)
        index._check(reader.manifest)
        return index

    @property
    def corpus(self) -> str:
        return self._reader.manifest.corpus

    @property
    def snapshot(self) -> int:
        """The number of the snapshot that is searched."""
        return self._reader.manifest.snapshot

    @property
    def manifest(self) -> Manifest:
        return self._reader.manifest

    def search(
        self,
        text: str,
        k: int = 10,
        mode: Mode = "hybrid",
        where: str | None = None,
        rerank: str | None = None,
        neighbours: int = 0,
    ) -> list[Hit]:
        """The best ``k`` chunks for a text, best first; fewer when there are not as many.

        Of a corpus with parents, a hit shows the parent of the chunk that was found, and each parent once.

        Args:
            text: taken as words, never as query syntax. A text without a visible character finds nothing.
            mode: `hybrid` fuses `vector` (cosine similarity) and `bm25`.
            where: a SQL condition over the filter columns, which holds in both arms before candidates are chosen.
            rerank: `none`, `cross-encoder`, `late-interaction`, `litellm` or `llm`, or with its model
                `cross-encoder:BAAI/bge-reranker-base`; by default what the corpus says for hybrid searches. A hit that
                was reranked has the reranker's score; hits beyond its candidates follow in fusion's order, with its score.
            neighbours: so many passages before and after each hit come with it, see :meth:`context`.

        Raises:
            QueryError: an argument or the condition cannot be understood.
            RerankingError, CredentialsError, ProviderError, MissingExtraError: the reranker fails. Where the corpus says
                `rerank_on_failure: fused`, that is a warning on the logger "rag_pipeline.query" instead.
        """
        self._check_arguments(text, k, mode)
        self._check_neighbours(neighbours, 0)
        return self._reader.search(text, k, mode, where, rerank, neighbours)

    async def asearch(
        self,
        text: str,
        k: int = 10,
        mode: Mode = "hybrid",
        where: str | None = None,
        rerank: str | None = None,
        neighbours: int = 0,
    ) -> list[Hit]:
        """:meth:`search` on a worker thread, so that the event loop goes on."""
        return await asyncio.to_thread(self.search, text, k, mode, where, rerank, neighbours)

    def context(self, hits: Sequence[Hit], neighbours: int = 1) -> list[Hit]:
        """The same hits, each with the passages before and after it in its document, as ``before`` and ``after``.

        One lookup for all hits. Text that overlaps stands once, in the passage nearer to the hit. A condition that the
        hits were searched with does not hold for neighbours, which may be under another heading or on another page.

        Args:
            hits: of this snapshot.
            neighbours: how many on each side, at least 1; fewer at the ends of a document.

        Raises:
            QueryError: a hit is of another snapshot, which has not the same chunks.
        """
        self._check_neighbours(neighbours, 1)
        return self._reader.with_neighbours(hits, neighbours)

    def explain(
        self, text: str, k: int = 10, mode: Mode = "hybrid", where: str | None = None, rerank: str | None = None
    ) -> list[Explanation]:
        """:meth:`search`, with the rank and score of every hit in each arm and what fusion and the reranker made of them."""
        self._check_arguments(text, k, mode)
        return self._reader.explain(text, k, mode, where, rerank)

    def explain_missing(
        self, text: str, document_id: str, mode: Mode = "hybrid", where: str | None = None, rerank: str | None = None
    ) -> MissingExplanation:
        """Why a document is not among the hits of :meth:`search` with these arguments, or where it stands.

        The store's present state is read as well, for a document that could not be read.
        """
        from rag_pipeline.query.missing import explain_missing

        self._check_arguments(text, 1, mode)
        if not isinstance(document_id, str):
            raise QueryError(f"document_id: expected a string, got {type(document_id).__name__}")
        return explain_missing(self._reader, text, document_id, mode, where, rerank)

    def hit_documents(self, text: str, k: int, mode: Mode = "hybrid", rerank: str | None = "none") -> list[tuple[str, ...]]:
        """The documents of each hit that :meth:`search` finds, that of the hit first, then others that hold the same text:
        quicker when nothing else is wanted."""
        self._check_arguments(text, k, mode)
        return self._reader.hit_documents(text, k, mode, rerank)

    def rankings(self, text: str, modes: Sequence[Mode], depth: int, bm25_weights: Floats | None = None) -> Rankings:
        """The lists of several modes from one look of each arm, for those who measure: no filter, no reranker.

        Args:
            depth: how many chunks each arm gives, at least 100.
            bm25_weights: makes a hybrid list under each of them instead of the weight in force.
        """
        for mode in modes:
            self._check_arguments(text, depth, mode)
        return self._reader.rankings(text, modes, depth, bm25_weights)

    def local_rerankers(self) -> dict[str, str | None]:
        """The rerankers that need no provider, and for each why it cannot be had here, or None where it can."""
        from rag_pipeline.reranking import local_rerankers

        return local_rerankers(RetrievalConfig(**self.manifest.content.retrieval))

    @property
    def fusion(self) -> AppliedFusion:
        """How hybrid searches fuse both arms."""
        return self._reader.fusion

    def chunk_ids(self) -> set[str]:
        """The ids of all chunks of the snapshot."""
        return self._reader.all_chunk_ids()

    def refresh(self) -> bool:
        """Move to the snapshot that is served now. Searches under way finish on the old one.

        Returns:
            Whether there was another one. A pinned index stays where it is.
        """
        if self._pinned:
            return False
        moved = self._reader.reopen()
        if moved is None:
            return False
        self._check(moved.manifest)
        self._reader = moved
        return True

    async def arefresh(self) -> bool:
        """:meth:`refresh` on a worker thread, so that the event loop goes on."""
        return await asyncio.to_thread(self.refresh)

    def _check(self, manifest: Manifest) -> None:
        if self._expect is not None and manifest.hash != self._expect:
            raise StoreError(
                f"corpus {manifest.corpus!r}, snapshot {manifest.snapshot}: expected hash {self._expect}, "
                f"it has {manifest.hash}"
            )

    @staticmethod
    def _check_arguments(text: str, k: int, mode: str) -> None:
        if not isinstance(text, str):
            raise QueryError(f"text: expected a string, got {type(text).__name__}")
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise QueryError(f"k: expected a whole number of at least 1, got {k!r}")
        if mode not in MODES:
            raise QueryError(f"mode: expected one of {', '.join(MODES)}, got {mode!r}")

    @staticmethod
    def _check_neighbours(neighbours: int, least: int) -> None:
        if isinstance(neighbours, bool) or not isinstance(neighbours, int) or neighbours < least:
            raise QueryError(f"neighbours: expected a whole number of at least {least}, got {neighbours!r}")
