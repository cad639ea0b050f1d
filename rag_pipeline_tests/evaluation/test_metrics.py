"""The figures are those of trec_eval."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.evaluation.metrics import ndcg, recall, reciprocal_rank

GRADES = {"a": 2, "b": 1, "c": 0}


def test_ndcg_of_a_worked_example() -> None:
    ideal = 2 / math.log2(2) + 1 / math.log2(3)
    assert ndcg(["c", "b", "a"], GRADES, 10) == pytest.approx((1 / math.log2(3) + 2 / math.log2(4)) / ideal)


def test_the_ideal_ranking_counts_documents_that_were_not_found() -> None:
    assert ndcg(["b"], GRADES, 10) == pytest.approx(1 / (2 + 1 / math.log2(3)))


def test_an_empty_answer_counts_zero() -> None:
    assert ndcg([], GRADES, 10) == recall([], GRADES, 100) == reciprocal_rank([], GRADES, 10) == 0


def test_recall_counts_relevant_documents_only() -> None:
    assert recall(["c", "a"], GRADES, 100) == 0.5
    assert recall(["c", "a"], GRADES, 1) == 0


def test_the_reciprocal_rank_is_that_of_the_first_relevant_document() -> None:
    assert reciprocal_rank(["x", "c", "b", "a"], GRADES, 10) == pytest.approx(1 / 3)
    assert reciprocal_rank(["x", "c", "b", "a"], GRADES, 2) == 0


@given(st.permutations(["a", "b", "c", "d"]), st.fixed_dictionaries({name: st.integers(0, 3) for name in "abcd"}))
def test_figures_lie_between_0_and_1_and_the_ideal_order_is_best(ranked: list[str], grades: dict[str, int]) -> None:
    ideal = sorted(grades, key=lambda name: -grades[name])
    for figure in (ndcg, recall, reciprocal_rank):
        assert 0 <= figure(ranked, grades, 3) <= figure(ideal, grades, 3) + 1e-12 <= 1 + 1e-9
