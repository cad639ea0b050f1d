"""One opened snapshot: vectors, lexical index and columns, all as its manifest names them."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Collection, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_pipeline.config import LexicalConfig, RetrievalConfig, data_root
from rag_pipeline.contracts import Hit, Manifest
from rag_pipeline.embedding import Embedder, embedder_of
from rag_pipeline.errors import QueryError, StoreError
from rag_pipeline.index.analyzer import ANALYZER_VERSION, Analyzer
from rag_pipeline.index.bm25 import PostingsBM25, open_bm25
from rag_pipeline.index.snapshot import open_vector_table, read_manifest, read_pointer
from rag_pipeline.index.store import CorpusStore
from rag_pipeline.index.vector_table import filter_columns, has_parents
from rag_pipeline.lance import bucket_errors, damage_as_store_error
from rag_pipeline.query.asked import Asked
from rag_pipeline.query.dense import NOTHING, DenseArm, MatrixArm, TableArm
from rag_pipeline.query.explanation import ArmScore, Explanation, RerankEffect, TermScore
from rag_pipeline.query.filters import RowFilter
from rag_pipeline.query.fusion import (
    ARMS,
    Candidates,
    Fused,
    convex_combination,
    factor_of,
    fusion_of,
    reciprocal_rank_fusion,
)
from rag_pipeline.query.hits import HitColumns, MemoryColumns, TableColumns, hit_columns, indexed_text, make_hit
from rag_pipeline.query.missing import RankedRows
from rag_pipeline.query.passages import Passages
from rag_pipeline.query.ranking import Floats, Ints, Ranking, TextGroups
from rag_pipeline.query.rankings import Rankings, arm_places, continued, fused_places, weighted_places
from rag_pipeline.query.rerank import Reranked, Reranking, as_fused
from rag_pipeline.query.rerank import rerank as rerank_results
from rag_pipeline.reranking import chosen
from rag_pipeline.wording import counted

_CANDIDATES_PER_ARM = 100
"""How deep each arm looks at the least; a larger ``k`` looks as deep as ``k``."""

_DEEPEST = 10_000
"""How deep each arm is looked through for a document that was expected."""


def _arms_of(mode: str) -> tuple[str, ...]:
    return ARMS if mode == "hybrid" else (mode,)


class _Ranked(NamedTuple):
    """What a search found, and what it looked with."""

    reranking: Reranking
    arms: dict[str, Ranking]
    terms: list[str]
    query: npt.NDArray[np.float32] | None
    mask: npt.NDArray[np.bool_] | None
    depth: int


class SnapshotReader:
    """Reads one manifest and only what it names. Nothing is changed after opening, so that threads may share it.

    Args:
        embedder: embeds the queries; by default the one that the manifest names.
    """

    def __init__(self, store: CorpusStore, manifest: Manifest, memory_budget: int, embedder: Embedder | None = None) -> None:
        self.manifest = manifest
        self.store = store
        self._memory_budget = memory_budget
        self._embedder: Embedder = embedder or embedder_of(
            manifest.content.embedder, manifest.content.query_model, manifest.model_access
        )
        self._retrieval = RetrievalConfig(**manifest.content.retrieval).for_embedder(manifest.content.embedder.provider)
        self.fusion = fusion_of(self._retrieval, manifest.fusion)
        table = open_vector_table(store, manifest)
        self._load_rows(table)
        self._load_lexical()
        self.filter = RowFilter(table, self._row_ids, filter_columns(table.schema))

    @classmethod
    def open(
        cls, corpus: str, data: str | os.PathLike[str] | None, snapshot: int | None, memory_budget: int
    ) -> SnapshotReader:
        store = CorpusStore(data_root(data), corpus)
        with bucket_errors(f"corpus {corpus!r}"):
            return cls(store, read_manifest(store, snapshot), memory_budget)

    def reopen(self) -> SnapshotReader | None:
        """A reader of the snapshot that is served now, or None when it is this one."""
        pointer = read_pointer(self.store)
        if pointer is None or pointer.snapshot == self.manifest.snapshot:
            return None
        store = CorpusStore(self.store.root.parent, self.store.corpus)
        with bucket_errors(self._name()):
            return SnapshotReader(store, read_manifest(store, pointer.snapshot), self._memory_budget)

    def all_chunk_ids(self) -> set[str]:
        return set(self._chunk_ids.to_pylist())

    def search(self, text: str, k: int, mode: str, where: str | None, rerank: str | None, neighbours: int = 0) -> list[Hit]:
        hits = self._hits(self._rank(text, k, mode, where, rerank))
        return self.with_neighbours(hits, neighbours) if neighbours else hits

    def with_neighbours(self, hits: Sequence[Hit], count: int) -> list[Hit]:
        """The same hits with what stands around them.

        Raises:
            QueryError: a hit is of another snapshot, which has not the same chunks.
        """
        ids = pa.array([hit.chunk_id for hit in hits], self._chunk_ids.type)
        rows = pc.index_in(ids, value_set=self._chunk_ids)
        if rows.null_count:
            raise QueryError(f"hits: {self._name()} has no chunk {ids.filter(rows.is_null())[0]}; search it for them")
        around = self.passages.around(rows.to_pylist(), count)
        return [hit.model_copy(update=one._asdict()) for hit, one in zip(hits, around, strict=True)]

    def hit_documents(self, text: str, k: int, mode: str, rerank: str | None) -> list[tuple[str, ...]]:
        """The documents that hold each of the best ``k`` texts, the one that is shown first."""
        ranked = self._rank(text, k, mode, None, rerank)
        return self._holders([one.found.row for one in ranked.reranking.results])

    def _holders(self, rows: Sequence[int]) -> list[tuple[str, ...]]:
        """For each row the documents that hold its text, its own first."""
        shared = self.groups.shared(np.asarray(rows, dtype=np.int64)).tolist()
        like = [self.groups.rows_like(rows[at]).tolist() for at in shared]
        names = iter(self.columns.document_ids([*rows, *chain.from_iterable(like)]))
        holders: list[tuple[str, ...]] = [(next(names),) for _ in rows]
        for at, others in zip(shared, like, strict=True):
            holders[at] = tuple(dict.fromkeys((*holders[at], *sorted(islice(names, len(others))))))
        return holders

    def explain(self, text: str, k: int, mode: str, where: str | None, rerank: str | None) -> list[Explanation]:
        ranked = self._rank(text, k, mode, where, rerank)
        results = ranked.reranking.results
        return [self._explained(ranked, one, hit) for one, hit in zip(results, self._hits(ranked), strict=True)]

    def _load_rows(self, table: Any) -> None:
        rows, dimensions = self.manifest.counts.chunks, self.manifest.content.embedder.dimensions
        vectors_fit = rows * dimensions * 4 <= self._memory_budget
        parents = has_parents(table)
        shown_hash = "parent_hash" if parents else "text_hash"
        columns = ["chunk_id", shown_hash, *(["vector"] if vectors_fit else [])]
        with damage_as_store_error(table.name):
            loaded = table.search().select(columns).with_row_id(True).to_arrow()
        if loaded.num_rows != rows:
            raise StoreError(
                f"{self._name()}: the manifest names {counted(rows, 'chunk')}, the vector table holds {loaded.num_rows}"
            )
        self._row_ids: npt.NDArray[np.uint64] = loaded["_rowid"].to_numpy()
        self._chunk_ids: pa.Array = loaded["chunk_id"].combine_chunks()
        self.groups = TextGroups(
            loaded[shown_hash].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64),
            np.argsort(pc.sort_indices(self._chunk_ids).to_numpy()),
        )
        self._dense: DenseArm
        if vectors_fit:
            flat = loaded["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
            self._dense = MatrixArm(np.ascontiguousarray(flat.reshape(rows, dimensions)))
        else:
            self._dense = TableArm(table, self._row_ids)
        self.columns: HitColumns = TableColumns(table, self._row_ids, self._chunk_ids)
        if table.stats()["total_bytes"] <= self._memory_budget:
            with damage_as_store_error(table.name):
                shown = table.search().select(hit_columns(table.schema)).with_row_id(True).to_arrow()
            ids = shown["_rowid"].to_numpy()
            by_id = np.argsort(ids)
            self.columns = MemoryColumns(shown.take(pa.array(by_id[np.searchsorted(ids[by_id], self._row_ids)])))
        self.passages = Passages(table, self._row_ids, self.columns, parents)

    def _load_lexical(self) -> None:
        settings = dict(self.manifest.content.lexical)
        version = settings.pop("analyzer")
        if version != ANALYZER_VERSION:
            raise StoreError(
                f"{self._name()}: its terms were made by analyzer {version}, this version has {ANALYZER_VERSION}; "
                f"refresh the corpus, or search with the version that made it"
            )
        config = LexicalConfig(**settings)
        self._analyzer = Analyzer(config)
        self._bm25: PostingsBM25 = open_bm25(self.store.bm25, self.manifest.bm25, config)
        positions = pc.index_in(self._bm25.chunk_ids, value_set=self._chunk_ids.cast(pa.large_utf8()))
        if positions.null_count or len(positions) != len(self._chunk_ids):
            raise StoreError(f"{self._name()}: vector table and lexical index do not hold the same chunks; refresh again")
        self._row_of_ordinal: npt.NDArray[np.int64] = positions.to_numpy().astype(np.int64)
        self._ordinal_of_row = np.argsort(self._row_of_ordinal)

    def _name(self) -> str:
        return f"corpus {self.manifest.corpus!r}, snapshot {self.manifest.snapshot}"

    def _settings(self, mode: str, rerank: str | None) -> RetrievalConfig:
        """How this search fuses and reranks. The corpus's reranker is for hybrid searches, a named one for any."""
        return chosen(self._retrieval, "none" if rerank is None and mode != "hybrid" else rerank)

    def _rank(self, text: str, k: int, mode: str, where: str | None, rerank: str | None) -> _Ranked:
        settings = self._settings(mode, rerank)
        reranked = settings.rerank != "none" and visible(text)
        wanted = max(k, settings.rerank_candidates) if reranked else k
        candidates = self._candidates(text, wanted, mode, where)
        if not reranked:
            return candidates
        fused = [one.found for one in candidates.reranking.results]
        return candidates._replace(reranking=rerank_results(text, fused, self._indexed_texts, settings, k))

    def _indexed_texts(self, rows: list[int]) -> list[str]:
        return [indexed_text(values) for values in self.columns.rows(rows)]

    def _candidates(self, text: str, k: int, mode: str, where: str | None, depth: int | None = None) -> _Ranked:
        """The best ``k`` before any reranking, of the first ``depth`` of each arm."""
        mask = None if where is None else self.filter.mask(where)
        depth = max(k, _CANDIDATES_PER_ARM) if depth is None else depth
        asked = self._ask(text, _arms_of(mode), mask, depth)
        if asked.matches is not None and mode == "hybrid":
            results = self._fused(asked, k)
        else:
            only = asked.arms[mode]
            pairs = zip(only.rows[:k].tolist(), only.scores[:k].tolist(), strict=True)
            results = [Fused(row, score, (rank,), (score,)) for rank, (row, score) in enumerate(pairs, 1)]
        return _Ranked(as_fused(results), asked.arms, asked.terms, asked.query, mask, depth)

    def _ask(self, text: str, wanted: Collection[str], mask: npt.NDArray[np.bool_] | None, depth: int) -> Asked:
        """The first ``depth`` of each arm that is wanted."""
        terms = self.terms_of(text)
        query = self._embedder.embed_query(text) if "vector" in wanted and visible(text) else None
        matches = self._bm25_matches(terms, mask) if "bm25" in wanted else None
        arms: dict[str, Ranking] = {}
        if "vector" in wanted:
            arms["vector"] = self._dense.best(query, depth, self.groups, mask) if query is not None else NOTHING
        if matches is not None:
            arms["bm25"] = self.groups.best(*matches, depth)
        return Asked(arms, terms, self._analyzer.is_name(text), query, matches)

    def rankings(self, text: str, modes: Sequence[str], depth: int, bm25_weights: Floats | None = None) -> Rankings:
        """The chunks that the arms find among their first ``depth``, and their places in the list of each mode.

        A hybrid list begins as that of a search for up to 100 results, and goes on with what a deeper look adds.

        Args:
            bm25_weights: ranks hybrid searches under each of them instead of the weight in force; shape ``(weights,)``.
        """
        asked = self._ask(text, {arm for mode in modes for arm in _arms_of(mode)}, None, depth)
        rows = np.unique(np.concatenate([arm.rows for arm in asked.arms.values()]))
        places = {mode: arm_places(rows, asked.arms[mode]) for mode in modes if mode != "hybrid"}
        if "hybrid" in modes and asked.matches is not None:
            looks = [self._hybrid_places(rows, asked, cut, bm25_weights) for cut in sorted({_CANDIDATES_PER_ARM, depth})]
            places["hybrid"] = looks[0] if len(looks) == 1 else continued(looks[0], looks[1], self.groups.codes[rows])
        cut = any(len(arm.rows) == depth for arm in asked.arms.values())
        return Rankings(self._holders(rows.tolist()), places, cut)

    def _hybrid_places(self, rows: Ints, asked: Asked, depth: int, bm25_weights: Floats | None) -> Ints:
        arms = {name: Ranking(arm.rows[:depth], arm.scores[:depth]) for name, arm in asked.arms.items()}
        asked = asked._replace(arms=arms)
        if self.fusion.method == "rrf":
            return fused_places(rows, self._fused(asked, len(rows)))
        weights = np.array([self.fusion.bm25_weight]) if bm25_weights is None else bm25_weights
        return weighted_places(rows, self._scored(asked), weights, self.fusion, self.groups)

    def terms_of(self, text: str) -> list[str]:
        """The terms that BM25 looks for."""
        return self._analyzer.query_terms(text)

    def rows_with(self, term: str) -> Ints:
        """The rows that hold a term."""
        return self._row_of_ordinal[self._bm25.candidates([term])[0]]

    def ranked_lists(self, text: str, mode: str, where: str | None, rerank: str | None) -> dict[str, RankedRows]:
        """What `search` does, list by list, each as far down as can be said: the arms, ``fused`` and ``reranked``."""
        mask = None if where is None else self.filter.mask(where)
        settings = self._settings(mode, rerank)
        reranked = settings.rerank != "none" and visible(text)
        depth = max(_CANDIDATES_PER_ARM, settings.rerank_candidates if reranked else 0)
        deep = self._ask(text, _arms_of(mode), mask, max(depth, min(len(self._row_ids), _DEEPEST)))
        lists = {name: RankedRows(arm.rows.tolist(), arm.scores.tolist()) for name, arm in deep.arms.items()}
        candidates = self._candidates(text, 2 * depth, mode, where, depth).reranking
        if mode == "hybrid":
            lists["fused"] = _ranked_rows(candidates)
        if reranked:
            fused = [one.found for one in candidates.results]
            lists["reranked"] = _ranked_rows(rerank_results(text, fused, self._indexed_texts, settings, len(fused)))
        return lists

    def _bm25_matches(self, terms: list[str], mask: npt.NDArray[np.bool_] | None) -> tuple[Ints, Floats]:
        """The rows that hold a query term and are in the mask, and their scores."""
        ordinals, scores = self._bm25.candidates(terms)
        rows = self._row_of_ordinal[ordinals]
        if mask is not None:
            inside = mask[rows]
            rows, scores = rows[inside], scores[inside]
        return rows, scores

    def _fused(self, asked: Asked, k: int) -> list[Fused]:
        ranked = [asked.arms[name] for name in ARMS]
        if self.fusion.method == "rrf":
            return reciprocal_rank_fusion(ranked, self.groups, self._retrieval.rrf_k, k)
        return convex_combination(ranked, self._scored(asked), self.fusion, self.groups, k)

    def _scored(self, asked: Asked) -> Candidates:
        """The rows of both arms, each with its score in either."""
        rows, query = asked.rows(), asked.query
        cosine = self._dense.similarities(query, rows) if query is not None and query.any() and len(rows) else None
        return Candidates(rows, cosine, asked.bm25_of(rows), self._bm25_factor(asked))

    def _bm25_factor(self, asked: Asked) -> float:
        first = asked.arms["bm25"].rows[:1]
        if not len(first):
            return 1.0
        coverage = self._bm25.coverage(asked.terms, int(self._ordinal_of_row[first[0]]))
        return factor_of(coverage, asked.is_name)

    def _hits(self, ranked: _Ranked) -> list[Hit]:
        results = ranked.reranking.results
        like = [self.groups.rows_like(one.found.row) for one in results]
        if ranked.mask is not None:
            like = [rows[ranked.mask[rows]] for rows in like]
        shown = self.passages.rows([one.found.row for one in results])
        doubles = sorted({int(row) for rows in like if len(rows) > 1 for row in rows})
        sources = {row: values["source"] for row, values in zip(doubles, self.columns.rows(doubles), strict=True)}
        return [
            make_hit(rank, one.score, values, [sources[int(row)] for row in rows] if len(rows) > 1 else [])
            for rank, (one, values, rows) in enumerate(zip(results, shown, like, strict=True), 1)
        ]

    def _explained(self, ranked: _Ranked, one: Reranked, hit: Hit) -> Explanation:
        found = one.found
        scores: dict[str, ArmScore] = {}
        matches = self._bm25.explain(ranked.terms, int(self._ordinal_of_row[found.row]))
        measured = {
            "vector": _similarity(self._dense, ranked.query, found.row),
            "bm25": sum(match.contribution for match in matches) if matches else None,
        }
        names = [name for name in ARMS if name in ranked.arms]
        for name in ARMS:
            place = names.index(name) if name in names else None
            scores[name] = ArmScore(
                rank=found.ranks[place] if place is not None else None,
                score=measured[name],
                contribution=found.contributions[place] if place is not None else 0.0,
            )
        return Explanation(
            hit=hit,
            vector=scores["vector"],
            bm25=scores["bm25"],
            terms=tuple(
                TermScore(
                    term=match.term,
                    frequency=match.frequency,
                    chunks_with_term=match.document_frequency,
                    idf=match.idf,
                    weight=match.contribution / match.idf if match.idf else 0.0,
                    contribution=match.contribution,
                )
                for match in matches
            ),
            candidates_per_arm=ranked.depth,
            fused_score=found.score,
            fusion=self.fusion if len(found.ranks) == len(ARMS) else None,
            bm25_weight=found.bm25_weight,
            rerank=_effect(ranked.reranking, one),
        )


def _ranked_rows(reranking: Reranking) -> RankedRows:
    return RankedRows([one.found.row for one in reranking.results], [one.score for one in reranking.results])


def _effect(reranking: Reranking, one: Reranked) -> RerankEffect | None:
    if reranking.reranker is None:
        return None
    return RerankEffect(
        reranker=reranking.reranker,
        score=one.given,
        weight=reranking.weight,
        rank_before=one.rank_before,
        failure=reranking.failure,
    )


def visible(text: str) -> bool:
    """Whether a text holds anything but white space and characters that are not shown."""
    return any(unicodedata.category(character)[0] not in "ZC" for character in text)


def _similarity(dense: DenseArm, query: npt.NDArray[np.float32] | None, row: int) -> float | None:
    if query is None or not query.any():
        return None
    return float(dense.similarities(query, np.array([row]))[0])
