"""The figures are those of trec_eval."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.config import METRICS
from rag_pipeline.evaluation.metrics import average_precision, figure, ndcg, precision, recall, reciprocal_rank
from rag_pipeline.evaluation.results import query_result

GRADES = {"a": 2, "b": 1, "c": 0}


def test_ndcg_of_a_worked_example() -> None:
    ideal = 2 / math.log2(2) + 1 / math.log2(3)
    assert ndcg(["c", "b", "a"], GRADES, 10) == pytest.approx((1 / math.log2(3) + 2 / math.log2(4)) / ideal)


def test_the_ideal_ranking_counts_documents_that_were_not_found() -> None:
    assert ndcg(["b"], GRADES, 10) == pytest.approx(1 / (2 + 1 / math.log2(3)))


def test_an_empty_answer_counts_zero() -> None:
    assert all(figure(f"{metric}@10", [], GRADES) == 0 for metric in METRICS)


def test_recall_counts_relevant_documents_only() -> None:
    assert recall(["c", "a"], GRADES, 100) == 0.5
    assert recall(["c", "a"], GRADES, 1) == 0


def test_the_reciprocal_rank_is_that_of_the_first_relevant_document() -> None:
    assert reciprocal_rank(["x", "c", "b", "a"], GRADES, 10) == pytest.approx(1 / 3)
    assert reciprocal_rank(["x", "c", "b", "a"], GRADES, 2) == 0


@given(st.permutations(["a", "b", "c", "d"]), st.fixed_dictionaries({name: st.integers(0, 3) for name in "abcd"}))
def test_figures_lie_between_0_and_1_and_the_ideal_order_is_best(ranked: list[str], grades: dict[str, int]) -> None:
    ideal = sorted(grades, key=lambda name: -grades[name])
    for metric in (ndcg, recall, precision, reciprocal_rank, average_precision):
        assert 0 <= metric(ranked, grades, 3) <= metric(ideal, grades, 3) + 1e-12 <= 1 + 1e-9


def test_precision_counts_places_that_nothing_fills() -> None:
    assert precision(["a", "c"], GRADES, 10) == 0.1
    assert precision(["c", "a", "b"], GRADES, 2) == 0.5


def test_average_precision_counts_relevant_documents_that_were_not_found() -> None:
    assert average_precision(["x", "a"], GRADES, 100) == pytest.approx(0.5 / 2)
    assert average_precision(["a", "x", "b"], GRADES, 100) == pytest.approx((1 + 2 / 3) / 2)


RANKED = st.lists(st.sampled_from([f"d{n}" for n in range(20)]), unique=True)
JUDGED = st.dictionaries(st.sampled_from([f"d{n}" for n in range(25)]), st.integers(0, 3), min_size=1)


@given(RANKED, JUDGED, st.integers(1, 20))
def test_every_metric_is_that_of_ir_measures(ranked: list[str], grades: dict[str, int], k: int) -> None:
    import ir_measures

    grades |= {"never found": 1}
    theirs = {"ndcg": "nDCG", "recall": "R", "precision": "P", "mrr": "RR", "map": "AP"}
    measures = {name: ir_measures.parse_measure(f"{theirs[name]}@{k}") for name in METRICS}
    # trec_eval orders by score, and ranks from the best on; a run without any document is no run to it.
    scores = {document: float(len(ranked) - place) for place, document in enumerate(ranked)} or {"none": 0.0}
    found = ir_measures.calc_aggregate(measures.values(), {"q": grades}, {"q": scores})
    for name, measure in measures.items():
        assert figure(f"{name}@{k}", ranked, grades) == pytest.approx(found[measure], abs=1e-4), name


@given(RANKED, JUDGED, st.sampled_from(METRICS), st.integers(1, 20))
def test_what_is_kept_of_a_ranking_gives_the_same_figures(
    ranked: list[str], grades: dict[str, int], metric: str, k: int
) -> None:
    kept = query_result("q", "text", grades, ranked, counted=True)
    assert kept.figure(f"{metric}@{k}") == figure(f"{metric}@{k}", ranked, grades)
