"""MaxSim over the static model's token vectors."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_pipeline.embedding import static
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


@settings(max_examples=30)
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
    similarities = numbers.uniform(-1, 1, (sum(lengths), tokens))
    offsets = np.cumsum([0, *lengths])
    if sum(lengths):
        expected = [
            [max(similarities[first:last, token]) if last > first else 0.0 for first, last in itertools.pairwise(offsets)]
            for token in range(tokens)
        ]
        np.testing.assert_array_equal(best_matches(similarities, offsets), expected)


def test_scores_are_those_of_the_definition(reranker: LateInteractionReranker) -> None:
    model = static.load()
    query, texts = "restart the old gateway, restart it now", ["reboot a router", "Gateways are old.", "now " * 50]

    def vectors(text: str) -> npt.NDArray[np.float64]:
        return model.token_vectors(model.tokens_of([text]).tokens).astype(np.float64)

    for text, given_score in zip(texts, reranker.scores(query, texts), strict=True):
        asked, found = vectors(query), vectors(text)
        weights = np.linalg.norm(asked, axis=1)
        cosines = (asked / weights[:, None]) @ (found / np.linalg.norm(found, axis=1)[:, None]).T
        assert given_score == pytest.approx((weights * cosines.max(axis=1)).sum() / weights.sum(), abs=1e-6)


def test_a_query_of_any_length_takes_bounded_memory(reranker: LateInteractionReranker) -> None:
    long = " ".join(f"word{number} {number * 7919}" for number in range(5000))
    tracemalloc.start()
    reranker.scores(long, ["a text of some words " * 100] * 50)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 << 20
