"""Scores over postings equal rank_bm25's over the same tokens, however the postings came about."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import rank_bm25
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rag_pipeline.config import LexicalConfig
from rag_pipeline.contracts import BM25Segment
from rag_pipeline.errors import StoreError
from rag_pipeline.index.analyzer import Analyzer
from rag_pipeline.index.bm25 import (
    PostingsBM25,
    compact,
    merge_segments,
    open_bm25,
    scoring,
    write_deletions,
    write_segments,
)

VARIANTS = ("lucene", "okapi", "l", "plus")
PLAIN = Analyzer(LexicalConfig(language="none"))

TERM = st.sampled_from(["a", "b", "c", "d", "internal", "internally", "internals", "é", "日", "z" * 64])
CHUNK = st.lists(TERM, max_size=12)
CORPUS = st.lists(CHUNK, min_size=1, max_size=12)
QUERY = st.lists(st.one_of(TERM, st.just("unknown")), max_size=6)


class LuceneReference(rank_bm25.BM25Okapi):  # type: ignore[misc]
    def _calc_idf(self, nd: dict[str, int]) -> None:
        for word, frequency in nd.items():
            self.idf[word] = math.log(1 + (self.corpus_size - frequency + 0.5) / (frequency + 0.5))


REFERENCES = {
    "lucene": LuceneReference,
    "okapi": rank_bm25.BM25Okapi,
    "l": rank_bm25.BM25L,
    "plus": rank_bm25.BM25Plus,
}


def configured(variant: str, k1: float = 1.5, b: float = 0.75) -> LexicalConfig:
    return LexicalConfig(language="none", variant=variant, k1=k1, b=b)  # type: ignore[arg-type]


def written(folder: Path, chunks: dict[str, list[str]], cuts: Sequence[int] = ()) -> list[BM25Segment]:
    """One segment for every stretch between two cuts."""
    ids, texts = list(chunks), [" ".join(terms) for terms in chunks.values()]
    edges = sorted({0, len(ids), *(cut for cut in cuts if cut < len(ids))})
    return [
        segment
        for start, end in pairwise(edges)
        for segment in write_segments(folder, [(pa.array(ids[start:end]), pa.array(texts[start:end]))], PLAIN)
    ]


def named(corpus: list[list[str]]) -> dict[str, list[str]]:
    return {f"c{number:03d}": chunk for number, chunk in enumerate(corpus)}


def index_of(folder: Path, corpus: list[list[str]], variant: str = "lucene") -> PostingsBM25:
    return open_bm25(folder, written(folder, named(corpus)), configured(variant))


@given(
    corpus=CORPUS,
    queries=st.lists(QUERY, min_size=1, max_size=4),
    cuts=st.lists(st.integers(1, 11), max_size=3),
    deleted=st.sets(st.integers(0, 11), max_size=6),
    deleted_later=st.sets(st.integers(0, 11), max_size=3),
    merged=st.booleans(),
    k1=st.floats(0.1, 5),
    # With b = 1 rank_bm25 divides 0 by 0 for a chunk without terms.
    b=st.floats(0, 0.99),
)
def test_scores_equal_rank_bm25_over_the_live_chunks(
    corpus: list[list[str]],
    queries: list[list[str]],
    cuts: list[int],
    deleted: set[int],
    deleted_later: set[int],
    merged: bool,
    k1: float,
    b: float,
) -> None:
    chunks = named(corpus)
    dead = {f"c{number:03d}" for number in deleted | deleted_later}
    live = {name: chunk for name, chunk in chunks.items() if name not in dead}
    assume(any(live.values()))  # rank_bm25 divides by zero without a term
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        segments = written(folder, chunks, cuts)
        for numbers in (deleted, deleted_later):
            ids = pa.array([f"c{number:03d}" for number in numbers], pa.string())
            segments = [write_deletions(folder, segment, ids) for segment in segments]
        if merged:
            first = merge_segments(folder, segments[:2])
            segments = ([first] if first else []) + segments[2:]
        for variant in VARIANTS:
            index = open_bm25(folder, segments, configured(variant, k1, b))
            reference = REFERENCES[variant](list(live.values()), k1=k1, b=b)
            assert index.chunk_ids.to_pylist() == list(live)
            assert index.avgdl == pytest.approx(reference.avgdl, abs=1e-12)
            for query in queries:
                assert_equal_scores(index, reference, query)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_chunk_without_terms_scores_as_one_that_holds_no_query_term(variant: str, tmp_path: Path) -> None:
    index = open_bm25(tmp_path, written(tmp_path, named([[], ["a"], ["b"]])), configured(variant, 1.0, 1.0))
    scores = index.get_scores(["a"])
    assert np.isfinite(scores).all()
    assert scores[0] == scores[2]
    assert index.candidates(["a"])[0].tolist() == [1]


def assert_equal_scores(index: Any, reference: Any, query: list[str]) -> None:
    wanted = reference.get_scores(query)
    np.testing.assert_allclose(index.get_scores(query), wanted, rtol=1e-9, atol=1e-9)
    some = list(range(0, index.corpus_size, 2))
    np.testing.assert_allclose(
        index.get_batch_scores(query, some), reference.get_batch_scores(query, some), rtol=1e-9, atol=1e-9
    )
    ordinals = list(range(index.corpus_size))
    # Equal scores may come in any order: compare the scores of what was chosen.
    best, best_wanted = index.get_top_n(query, ordinals, 3), reference.get_top_n(query, ordinals, 3)
    np.testing.assert_allclose(wanted[best], wanted[best_wanted], rtol=1e-9, atol=1e-9)

    holding = [n for n in ordinals if set(query) & set(reference.doc_freqs[n])]
    candidates, scores = index.candidates(query)
    assert candidates.tolist() == holding
    np.testing.assert_allclose(scores, wanted[holding], rtol=1e-9, atol=1e-9)
    for ordinal in ordinals:
        matches = index.explain(query, ordinal)
        assert math.fsum(match.contribution for match in matches) == pytest.approx(wanted[ordinal], abs=1e-9)
        held = {match.term: match.frequency for match in matches if match.frequency}
        assert held == {term: reference.doc_freqs[ordinal][term] for term in query if term in reference.doc_freqs[ordinal]}


@settings(max_examples=60)
@given(CORPUS, QUERY, st.integers(0, 14), st.lists(st.booleans(), min_size=12, max_size=12), st.randoms())
def test_top_is_the_head_of_all_candidates_by_score_and_then_by_chunk_id(
    corpus: list[list[str]], query: list[str], k: int, flags: list[bool], random: Any
) -> None:
    names = [f"c{number:03d}" for number in range(len(corpus))]
    random.shuffle(names)
    chunks = dict(zip(names, corpus, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        segments = written(Path(folder), chunks, [3, 7])
        for variant in VARIANTS:
            index = open_bm25(Path(folder), segments, configured(variant))
            mask = np.array(flags[: len(corpus)])
            ordinals, scores = index.candidates(query)
            ranked = sorted(zip(-scores, [names[n] for n in ordinals], ordinals, strict=True))
            for chosen, wanted in ((None, ranked), (mask, [row for row in ranked if mask[row[2]]])):
                best, best_scores = index.top(query, k, chosen)
                assert [(-score, names[n], n) for score, n in zip(best_scores, best, strict=True)] == wanted[:k]


def test_top_selects_among_many_chunks_as_sorting_all_does(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    words = [f"w{number}" for number in range(200)]
    corpus = [[words[n] for n in np.minimum(random.zipf(1.3, 20) - 1, 199)] for _ in range(5000)]
    index = index_of(tmp_path, corpus)
    names = index.chunk_ids.to_pylist()
    for query in (["w0"], ["w0", "w1", "w7"], ["w150", "w0", "w0"], ["w199", "w42"]):
        ordinals, scores = index.candidates(query)
        wanted = sorted(zip(-scores, [names[n] for n in ordinals], strict=True))
        for k in (1, 10, 333, 6000):
            best, best_scores = index.top(query, k)
            found = [(-score, names[n]) for score, n in zip(best_scores, best, strict=True)]
            assert found == wanted[:k]


def test_a_hundred_equal_scores_are_cut_by_chunk_id_whatever_the_order_of_building(tmp_path: Path) -> None:
    chunks = {f"c{number:03d}": ["same", "text"] for number in range(100)}
    backwards = dict(reversed(chunks.items()))
    for place, order, cuts in (("a", chunks, []), ("b", backwards, []), ("c", backwards, [10, 60])):
        index = open_bm25(tmp_path / place, written(tmp_path / place, order, cuts), configured("lucene"))
        best, _ = index.top(["same"], 5)
        assert index.chunk_ids.take(pa.array(best)).to_pylist() == ["c000", "c001", "c002", "c003", "c004"]


@settings(max_examples=50)
@given(CORPUS, QUERY, st.lists(st.sets(st.integers(0, 11), max_size=4), min_size=1, max_size=4))
def test_a_history_of_changes_scores_to_the_bit_as_a_fresh_build(
    corpus: list[list[str]], query: list[str], changes: list[set[int]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chunks = named(corpus)
        segments = written(folder, chunks)
        for round_, numbers in enumerate(changes):
            gone = [f"c{number:03d}" for number in numbers if f"c{number:03d}" in chunks]
            segments = [write_deletions(folder, segment, pa.array(gone, pa.string())) for segment in segments]
            new = {f"{chunk_id}-{round_}": [*chunks.pop(chunk_id), "b"] for chunk_id in gone}
            chunks |= new
            segments = compact(folder, segments + written(folder, new))
        for variant in VARIANTS:
            grown = open_bm25(folder, segments, configured(variant))
            fresh = open_bm25(folder, written(folder, chunks), configured(variant))
            by_id = [
                dict(zip(index.chunk_ids.to_pylist(), index.get_scores(query).tolist(), strict=True))
                for index in (grown, fresh)
            ]
            assert by_id[0] == by_id[1]


def test_the_default_ranks_two_chunks_right_where_okapi_scores_nothing(tmp_path: Path) -> None:
    corpus = [["windy", "london"], ["sunny", "rome"]]
    assert index_of(tmp_path, corpus, "okapi").get_scores(["windy"]).tolist() == [0, 0]
    default = open_bm25(tmp_path, written(tmp_path, named(corpus)), LexicalConfig(language="none"))
    best, scores = default.top(["windy"], 5)
    assert best.tolist() == [0]
    assert scores[0] > 0


def test_a_chunk_that_matches_is_a_candidate_even_with_an_idf_of_zero_or_less(tmp_path: Path) -> None:
    index = index_of(tmp_path, [["a", "x"], ["a"], ["a"], ["b"]], "okapi")
    assert index.candidates(["a"])[0].tolist() == [0, 1, 2]
    assert index.candidates(["x", "a"])[0].tolist() == [0, 1, 2]


def test_nothing_matches_an_empty_query_unknown_terms_or_an_empty_index(tmp_path: Path) -> None:
    for variant in VARIANTS:
        index = index_of(tmp_path, [["a"], ["b"]], variant)
        for query in ([], ["unknown"], ["\ud800"], [""]):
            assert index.candidates(query)[0].tolist() == []
            assert index.top(query, 10)[0].tolist() == []
            assert index.explain(query, 0) == []
        empty = open_bm25(tmp_path, [], configured(variant))
        assert empty.corpus_size == 0
        assert empty.get_scores(["a"]).shape == (0,)
        assert empty.top(["a"], 3)[0].tolist() == []
        blank = open_bm25(tmp_path, written(tmp_path, {"x": [], "y": []}), configured(variant))
        assert blank.get_scores(["a"]).tolist() == [0, 0]


def test_more_results_than_chunks_can_be_asked_for(tmp_path: Path) -> None:
    index = index_of(tmp_path, [["a"], ["a", "b"]])
    assert index.top(["a"], 100)[0].tolist() == [0, 1]
    assert index.top(["a"], 0)[0].tolist() == []


def test_explain_shows_frequency_document_frequency_and_repetitions(tmp_path: Path) -> None:
    index = index_of(tmp_path, [["a", "a", "b"], ["b"]])
    once, twice = index.explain(["a", "b"], 0), index.explain(["a", "a", "b"], 0)
    assert [(match.term, match.frequency, match.document_frequency) for match in once] == [("a", 2, 1), ("b", 1, 2)]
    assert twice[0].contribution == pytest.approx(2 * once[0].contribution)
    assert once[0].idf == pytest.approx(math.log(1 + (2 - 1 + 0.5) / (1 + 0.5)))


@pytest.mark.parametrize("variant", VARIANTS)
def test_coverage_is_the_part_of_the_query_that_a_chunk_holds(variant: str, tmp_path: Path) -> None:
    index = index_of(tmp_path, [["all", "one"], ["all", "two"], ["all", "three"], ["all"]], variant)
    whole = ["one", "all", "all"]
    for _ in range(2):  # the second time, terms of many chunks are remembered
        assert index.coverage(whole, 0) == 1.0
        assert 0.0 < index.coverage(whole, 1) == index.coverage(["all", "one"], 3) < 0.2
        assert 0.3 < index.coverage(["one", "elsewhere"], 0) < 0.5
        assert index.coverage([], 0) == index.coverage(["elsewhere"], 0) == 0.0
        index.candidates(whole)


def test_a_query_of_ten_thousand_words_costs_little_more_than_its_distinct_terms(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    corpus = [[f"word{n}" for n in random.integers(0, 3000, 30)] for _ in range(2000)]
    index = index_of(tmp_path, corpus)
    query = [f"word{n}" for n in random.integers(0, 5000, 10_000)]
    started = time.process_time()
    best, _ = index.top(query, 10)
    assert time.process_time() - started < 1
    assert len(best) == 10


def test_recently_used_gains_of_frequent_terms_stay_within_their_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "_CACHED_BYTES", 100)
    corpus = [["a", "b", "c", str(number)] for number in range(9)]
    index, reference = index_of(tmp_path, corpus), LuceneReference(corpus)
    for query in (["a"], ["b", "a"], ["c", "b", "a"], ["a", "c"]):
        np.testing.assert_allclose(index.get_scores(query), reference.get_scores(query), rtol=1e-12)
        assert index._frequent.size <= 100


def test_threads_search_one_index(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    corpus = [[f"w{n}" for n in random.integers(0, 60, 25)] for _ in range(500)]
    index, alone = index_of(tmp_path, corpus), index_of(tmp_path, corpus)
    queries = [[f"w{n}" for n in random.integers(0, 60, 4)] for _ in range(300)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda query: index.top(query, 10)[0].tolist(), queries))
    assert found == [alone.top(query, 10)[0].tolist() for query in queries]


def test_the_arrays_of_one_whole_segment_are_the_mapped_file_itself(tmp_path: Path) -> None:
    segments = written(tmp_path, {f"chunk number {number}": [f"w{number}", "x"] for number in range(5000)})
    before = pa.total_allocated_bytes()
    index = open_bm25(tmp_path, segments, configured("lucene"))
    index.top(["w4999"], 1)
    size = (tmp_path / segments[0].file).stat().st_size
    assert pa.total_allocated_bytes() - before < size / 50
    assert not index.doc_len.flags.owndata
    assert not index.doc_len.flags.writeable


def test_segments_of_another_analyzer_are_refused(tmp_path: Path) -> None:
    segments = written(tmp_path, named([["a"]]))
    with pytest.raises(StoreError, match=r"postings-.*language.*german"):
        open_bm25(tmp_path, segments, LexicalConfig(language="german"))


NAMES = ["C++", "C#", "F#", ".NET", "node.js", "E0308", "1.2.3", "--where", "-Path", "get_user_name", "getUserName",
         "get-user-name", "src/app/main.py", "foo.bar", "std::vector", "__init__", "R&D", "dry-run"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_exact_name_ranks_before_chunks_that_hold_its_parts(tmp_path: Path, name: str) -> None:
    parts = [part for part in PLAIN.terms(name)[1:] if part.isalnum()] or ["c"]
    texts = {
        "exact": f"We use {name} for the back office systems of the company.",
        "parts": f"We use {' and '.join(parts)} for the small systems of the company.",
        "fun": f"{' '.join(parts)} is fun.",
        "backwards": f"We use {' '.join(reversed(parts))} for the small systems of the company.",
        "letter": "We use C for the small systems of the company, and C again. C is fun.",
        "other": "We use F and net and node and a path where something else is said.",
        **{f"name {other}": f"We use {other} for other systems of the company." for other in NAMES if other != name},
    }
    analyzer = Analyzer(LexicalConfig(language="english"))
    segments = write_segments(tmp_path, [(pa.array(list(texts)), pa.array(list(texts.values())))], analyzer)
    index = open_bm25(tmp_path, segments, LexicalConfig(language="english"))
    best, scores = index.top(analyzer.terms(name), 3)
    assert index.chunk_ids[int(best[0])].as_py() == "exact"
    assert scores[0] > scores[1] if len(scores) > 1 else True


def test_a_query_of_words_that_every_chunk_holds_still_ranks(tmp_path: Path) -> None:
    analyzer = Analyzer(LexicalConfig(language="english"))
    texts = ["the man and the sea", "to be or not to be", "the end of it"]
    segments = write_segments(tmp_path, [(pa.array(["x", "y", "z"]), pa.array(texts))], analyzer)
    index = open_bm25(tmp_path, segments, LexicalConfig(language="english"))
    assert index.top(analyzer.terms("to be or not to be"), 3)[0].tolist() == [1]
    assert index.top(analyzer.terms("the"), 3)[0].tolist() == [0, 2]
