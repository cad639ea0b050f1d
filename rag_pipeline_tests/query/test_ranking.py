"""Ranked lists are deterministic, hold each text once, and are fused by the formula."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.query.explanation import AppliedFusion
from rag_pipeline.query.fusion import (
    Candidates,
    convex_combination,
    convex_places,
    factor_of,
    query_weights,
    reciprocal_rank_fusion,
)
from rag_pipeline.query.ranking import Ranking, TextGroups

CONVEX = AppliedFusion(method="convex", bm25_weight=0.7)
AUTO = AppliedFusion(method="auto", bm25_weight=0.7)


def groups_of(codes: list[int], tie_ranks: list[int] | None = None) -> TextGroups:
    return TextGroups(np.array(codes, dtype=np.int64), np.array(tie_ranks or range(len(codes)), dtype=np.int64))


def ranking(rows: list[int]) -> Ranking:
    return Ranking(np.array(rows, dtype=np.int64), np.zeros(len(rows)))


@given(st.data())
def test_the_best_are_those_of_a_full_sort_with_each_text_once(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 60))
    codes = data.draw(st.lists(st.integers(0, 9), min_size=size, max_size=size))
    scores = data.draw(st.lists(st.sampled_from([0.1, 0.2, 0.5, 0.9]), min_size=size, max_size=size))
    ties = data.draw(st.permutations(range(size)))
    count = data.draw(st.integers(1, 20))
    _, dense = np.unique(codes, return_inverse=True)
    found = groups_of(dense.tolist(), ties).best(np.arange(size), np.array(scores), count)

    expected: list[int] = []
    for row in sorted(range(size), key=lambda row: (-scores[row], ties[row])):
        if codes[row] not in [codes[other] for other in expected]:
            expected.append(row)
    assert found.rows.tolist() == expected[:count]


def test_differences_below_the_noise_of_floating_point_are_ties() -> None:
    found = groups_of([0, 1], [1, 0]).best(np.arange(2), np.array([0.5000000001, 0.5]), 2)
    assert found.rows.tolist() == [1, 0]


def test_no_rows_give_no_ranking() -> None:
    assert groups_of([0, 1]).best(np.zeros(0, dtype=np.int64), np.zeros(0), 5).rows.tolist() == []


def test_fusion_sums_the_reciprocal_ranks() -> None:
    fused = reciprocal_rank_fusion([ranking([0, 1]), ranking([1, 2])], groups_of([0, 1, 2]), k=60, count=10)
    assert [one.row for one in fused] == [1, 0, 2]
    assert fused[0].score == 1 / 62 + 1 / 61
    assert fused[0].ranks == (2, 1)
    assert fused[2].ranks == (None, 2)
    assert fused[2].contributions == (0.0, 1 / 62)


def test_a_text_that_both_arms_find_in_different_rows_is_one_result() -> None:
    fused = reciprocal_rank_fusion([ranking([3, 0]), ranking([2])], groups_of([0, 1, 1, 1]), k=60, count=10)
    assert [one.row for one in fused] == [3, 0]


def test_rows_like_a_row_are_all_that_hold_its_text() -> None:
    assert sorted(groups_of([0, 1, 0, 2]).rows_like(2).tolist()) == [0, 2]


def test_convex_fusion_keeps_how_much_better_a_candidate_is() -> None:
    candidates = Candidates(np.array([0, 1, 2]), np.array([0.2, 0.6, 0.4]), np.array([10.0, 5.0, 0.0]))
    fused = convex_combination([ranking([1, 2, 0]), ranking([0, 1])], candidates, CONVEX, groups_of([0, 1, 2]), 10)
    assert [one.row for one in fused] == [0, 1, 2]
    assert [one.contributions for one in fused] == [
        pytest.approx((0.0, 0.7)),
        pytest.approx((0.3, 0.35)),
        pytest.approx((0.15, 0.0)),
    ]
    assert [one.ranks for one in fused] == [(3, 1), (1, 2), (2, None)]


def test_convex_fusion_with_one_silent_arm_is_the_other_arm() -> None:
    groups = groups_of([0, 1, 2])
    lexical = Candidates(np.array([0, 2]), None, np.array([1.0, 4.0]))
    assert [one.row for one in convex_combination([ranking([]), ranking([2, 0])], lexical, CONVEX, groups, 10)] == [2, 0]
    dense = Candidates(np.array([0, 1]), np.array([0.1, 0.3]), np.zeros(2))
    assert [one.row for one in convex_combination([ranking([1, 0]), ranking([])], dense, CONVEX, groups, 10)] == [1, 0]


def test_convex_fusion_of_nothing_is_nothing() -> None:
    nothing = Candidates(np.zeros(0, dtype=np.int64), None, np.zeros(0))
    assert convex_combination([ranking([]), ranking([])], nothing, CONVEX, groups_of([0]), 10) == []


def test_an_arm_whose_first_stands_out_counts_for_more() -> None:
    clear, vague = [1.0, 0.1, 0.0, 0.0], [1.0, 0.9, 0.9, 0.8]
    halves = np.array([0.5])
    assert query_weights(np.array([clear, vague]), 1.0, halves) < 0.3
    assert query_weights(np.array([vague, clear]), 1.0, halves) > 0.7
    assert query_weights(np.array([clear, clear]), 1.0, halves) == pytest.approx(0.5)


def test_an_arm_in_which_all_are_alike_is_left_out() -> None:
    flat, silent, clear = [1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.5, 0.0]
    assert query_weights(np.array([flat, clear]), 1.0, np.array([0.2])) == 1.0
    assert query_weights(np.array([clear, silent]), 1.0, np.array([0.8])) == 0.0
    assert query_weights(np.array([flat, silent]), 1.0, np.array([0.3])) == 0.3


def test_scores_that_differ_by_rounding_are_alike() -> None:
    alike = [0.1 + 0.2, *[0.3] * 6, 0.1 + 0.2, *[0.3] * 2]
    assert query_weights(np.array([[1.0, 0.5] * 5, alike]), 1.0, np.array([0.65])) == 0.0
    assert query_weights(np.array([[1.0, 0.5] * 5, [0.7] * 10]), 1.0, np.array([0.65])) == 0.0


def test_bm25_counts_for_up_to_three_times_as_much_where_its_first_holds_all_of_the_query() -> None:
    parts, halves = np.array([[1.0, 0.5, 0.0], [1.0, 0.5, 0.0]]), np.array([0.5])
    covered = {part: float(query_weights(parts, factor_of(part, False), halves)[0]) for part in (0.0, 0.8, 0.9, 1.0)}
    assert covered == pytest.approx({0.0: 0.5, 0.8: 0.5, 0.9: 2 / 3, 1.0: 0.75})


def test_bm25_all_but_decides_where_a_name_stands_whole() -> None:
    assert factor_of(1.0, True) == pytest.approx(24.0)
    assert factor_of(0.8, True) == factor_of(0.0, True) == 1.0


@given(
    st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), min_size=2, max_size=2), st.floats(0, 1), st.floats(1, 24)
)
def test_a_weight_stays_a_weight_and_its_ends_stay_ends(parts: list[list[float]], weight: float, factor: float) -> None:
    found = query_weights(np.array(parts), factor, np.array([0.0, weight, 1.0]))
    assert (found >= 0).all()
    assert (found <= 1).all()
    assert found[0] <= found[1] + 1e-12
    assert found[1] <= found[2] + 1e-12


@given(st.data())
def test_places_under_many_weights_are_those_of_one_fusion_after_another(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 30))
    some = st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0])
    cosine = np.array(data.draw(st.lists(some, min_size=size, max_size=size)))
    bm25 = np.array(data.draw(st.lists(some, min_size=size, max_size=size)))
    _, codes = np.unique(data.draw(st.lists(st.integers(0, 20), min_size=size, max_size=size)), return_inverse=True)
    groups = groups_of(codes.tolist(), data.draw(st.permutations(range(size))))
    candidates = Candidates(np.arange(size), cosine if data.draw(st.booleans()) else None, bm25)
    weights = np.array([0.0, 0.3, 0.65, 1.0])
    for fusion in (CONVEX, AUTO):
        places = convex_places(candidates, weights, fusion, groups)
        for number, weight in enumerate(weights.tolist()):
            one = fusion.model_copy(update={"bm25_weight": weight})
            fused = convex_combination([ranking([]), ranking([])], candidates, one, groups, size)
            order = np.argsort(places[number], kind="stable")
            assert [row for row in order.tolist() if places[number][row] < size] == [result.row for result in fused]
