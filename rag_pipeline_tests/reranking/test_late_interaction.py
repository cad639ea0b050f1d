"""MaxSim over the static model's token vectors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_pipeline.reranking.late_interaction import LateInteractionReranker, best_matches, load


@pytest.fixture(scope="module")
def reranker() -> LateInteractionReranker:
    return load()


def test_a_text_that_holds_the_query_scores_one_and_no_text_scores_more(reranker: LateInteractionReranker) -> None:
    query = "restart the gateway"
    same, more, kin, other = reranker.scores(query, [query, f"First, {query} now.", "reboot a router", "ripe bananas"])
    assert same == pytest.approx(1.0)
    assert more == pytest.approx(1.0, abs=0.05)
    assert 1.0 > kin > other


def test_capitals_read_like_small_letters(reranker: LateInteractionReranker) -> None:
    loud, quiet = reranker.scores("QUICK RESTART", ["quick restart", "QUICK RESTART"])
    assert loud == pytest.approx(quiet)


def test_texts_and_queries_without_a_token_score_nothing(reranker: LateInteractionReranker) -> None:
    assert reranker.scores("", ["a", "b"]).tolist() == [0.0, 0.0]
    assert reranker.scores("a", []).shape == (0,)
    assert reranker.scores("a", ["", ""]).tolist() == [0.0, 0.0]
    empty, filled, last = reranker.scores("bananas", ["", "bananas", ""])
    assert (empty, last) == (0.0, 0.0)
    assert filled == pytest.approx(1.0)


@settings(max_examples=30, deadline=None)
@given(query=st.text(max_size=60), texts=st.lists(st.text(max_size=80), max_size=6))
def test_a_score_does_not_depend_on_the_texts_beside_it(
    reranker: LateInteractionReranker, query: str, texts: list[str]
) -> None:
    together = reranker.scores(query, texts)
    assert together.shape == (len(texts),)
    assert np.isfinite(together).all()
    for text, score in zip(texts, together, strict=True):
        assert reranker.scores(query, [text])[0] == pytest.approx(score, abs=1e-9)


@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=6),
    tokens=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_the_array_form_equals_the_definition(lengths: list[int], tokens: int, seed: int) -> None:
    numbers = np.random.default_rng(seed)
    similarities = numbers.uniform(-1, 1, (tokens, sum(lengths)))
    weights = numbers.uniform(0.1, 2, tokens)
    offsets = np.cumsum([0, *lengths])
    expected = [
        sum(weight * max(row[first:last]) for weight, row in zip(weights, similarities, strict=True)) / weights.sum()
        if last > first
        else 0.0
        for first, last in itertools.pairwise(offsets)
    ]
    if sum(lengths):
        np.testing.assert_allclose(best_matches(similarities, offsets, weights), expected)
