"""The paired randomisation test agrees with counting all permutations, and chance alone seldom looks significant."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rag_pipeline.evaluation.significance import compare_paired


def exact(differences: list[float]) -> float:
    sums = [abs(np.dot(signs, differences)) for signs in itertools.product((-1, 1), repeat=len(differences))]
    return float(np.mean([total >= abs(sum(differences)) - 1e-12 for total in sums]))


@pytest.mark.parametrize("seed", range(4))
def test_the_p_value_is_the_part_of_permutations_that_differ_as_much(seed: int) -> None:
    chance = np.random.default_rng(seed)
    before = chance.random(10)
    after = before + chance.normal(0.1 * seed, 0.2, 10)
    found = compare_paired(before.tolist(), after.tolist())
    assert found.p_value == pytest.approx(exact((after - before).tolist()), abs=0.02)
    assert found.difference == pytest.approx(after.mean() - before.mean())


def test_the_same_figures_always_give_the_same_p_value() -> None:
    before, after = [0.1, 0.5, 0.9, 0.3], [0.2, 0.4, 1.0, 0.6]
    assert compare_paired(before, after) == compare_paired(before, after)
    assert compare_paired(after, before).p_value == compare_paired(before, after).p_value


def test_without_a_difference_nothing_is_significant() -> None:
    assert compare_paired([0.5, 1.0], [0.5, 1.0]).p_value == 1.0
    assert compare_paired([], []).p_value == 1.0


def test_a_large_and_even_fall_is_significant_and_its_p_value_is_never_0() -> None:
    found = compare_paired([1.0] * 40, [0.5] * 40)
    assert (found.better, found.worse, found.difference) == (0, 40, -0.5)
    assert 0 < found.p_value < 0.001


def test_chance_is_called_significant_as_often_as_the_level_says() -> None:
    chance = np.random.default_rng(7)
    p_values = [compare_paired(chance.random(30).tolist(), chance.random(30).tolist()).p_value for _ in range(200)]
    assert 0.01 <= np.mean(np.array(p_values) < 0.05) <= 0.1


def test_figures_of_different_queries_are_refused() -> None:
    with pytest.raises(ValueError, match="same queries"):
        compare_paired([1.0], [1.0, 0.5])
