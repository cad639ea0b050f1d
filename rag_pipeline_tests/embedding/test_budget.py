"""A refresh never sends more than it may spend."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.embedding.budget import Budget
from rag_pipeline.errors import BudgetError, ConfigError


@given(
    limit=st.integers(0, 2_000),
    requests=st.lists(st.tuples(st.integers(0, 400), st.floats(0, 1), st.booleans()), max_size=60),
)
def test_what_is_spent_and_under_way_never_passes_the_limit(limit: int, requests: list[tuple[int, float, bool]]) -> None:
    """Requests take at most what was reserved for them; some end at once, some much later."""
    budget = Budget(tokens=limit)
    under_way: list[tuple[int, int]] = []
    spent = 0
    for tokens, share, ends_later in requests:
        reserved = sum(held for held, _ in under_way)
        try:
            budget.reserve(tokens)
        except BudgetError:
            assert spent + reserved + tokens > limit, "it was refused although it was there"
            continue
        assert spent + reserved + tokens <= limit
        under_way.append((tokens, int(tokens * share)))
        if not ends_later:
            for held, took in under_way:
                budget.settle(held, took)
                spent += took
            under_way.clear()
        assert budget.spent_tokens == spent


def test_what_a_failed_request_had_reserved_is_there_again() -> None:
    budget = Budget(tokens=100)
    budget.reserve(100)
    with pytest.raises(BudgetError):
        budget.reserve(1)
    budget.settle(100, 0)
    budget.reserve(100)
    assert budget.spent_tokens == 0


@given(usd=st.floats(0, 100), price=st.floats(1e-9, 1e-4), tokens=st.integers(1, 10**9))
def test_money_is_as_many_tokens_as_it_buys(usd: float, price: float, tokens: int) -> None:
    budget = Budget(usd=usd, usd_per_token=price)
    if tokens * price > usd * (1 + 1e-6) + price:
        with pytest.raises(BudgetError, match=r"budget\.usd_per_refresh"):
            budget.reserve(tokens)
    elif tokens * price < usd * (1 - 1e-6) - price:
        budget.reserve(tokens)
        budget.settle(tokens, tokens)
        assert budget.spent_usd == pytest.approx(tokens * price)


def test_the_last_cent_can_be_spent() -> None:
    budget = Budget(usd=0.3, usd_per_token=0.1)
    budget.reserve(3)
    with pytest.raises(BudgetError):
        budget.reserve(1)


def test_a_limit_in_money_without_a_price_names_what_to_set() -> None:
    with pytest.raises(ConfigError, match=r"budget\.usd_per_refresh: the price .* embedding\.usd_per_million_tokens"):
        Budget(usd=1.0)


def test_a_model_that_costs_nothing_needs_no_money() -> None:
    budget = Budget(usd=0.0, usd_per_token=0.0)
    budget.reserve(10**12)
    budget.settle(10**12, 10**12)
    assert budget.spent_usd == 0


def test_without_limits_everything_is_counted_and_nothing_refused() -> None:
    budget = Budget()
    budget.reserve(10**12)
    budget.settle(10**12, 5)
    assert budget.spent_tokens == 5
    assert budget.spent_usd is None


@pytest.mark.parametrize(
    ("tokens", "usd", "told"),
    [
        (100, None, r"0 tokens spent, the next request would pass 100 tokens\. .* raise budget\.tokens_per_refresh"),
        (None, 0.5, r"would pass 0\.5 USD\. .* raise budget\.usd_per_refresh"),
        (100, 0.5, r"would pass 0\.5 USD\. .* raise budget\.usd_per_refresh"),
        (40, 0.5, r"would pass 40 tokens\. .* raise budget\.tokens_per_refresh"),
    ],
)
def test_the_error_names_the_limit_that_was_reached(tokens: int | None, usd: float | None, told: str) -> None:
    with pytest.raises(BudgetError, match=told):
        Budget(tokens=tokens, usd=usd, usd_per_token=0.01).reserve(101)


def test_a_single_text_beyond_the_whole_budget_is_told_as_such() -> None:
    budget = Budget(tokens=100)
    for tokens in (400, 200):
        with pytest.raises(BudgetError, match="refresh again to go on"):
            budget.reserve(tokens)
    told = (
        r"a single text needs 200 tokens, more than all of 100 tokens\. Refreshing again cannot help: raise budget\.tokens"
    )
    assert re.search(told, str(budget.exhausted()))
    budget.reserve(60)
    budget.settle(60, 60)
    with pytest.raises(BudgetError):
        budget.reserve(50)
    assert "refresh again to go on" in str(budget.exhausted()), "the next budget has room for 50"


def test_one_token_is_one_token() -> None:
    budget = Budget(tokens=1)
    budget.reserve(1)
    budget.settle(1, 1)
    assert "1 token spent, the next request would pass 1 token." in str(budget.exhausted())


def test_the_error_tells_what_was_spent_in_tokens_and_money() -> None:
    budget = Budget(usd=1.0, usd_per_token=0.01)
    budget.reserve(60)
    budget.settle(60, 50)
    with pytest.raises(BudgetError, match=r"50 tokens \(0\.5000 USD\) spent"):
        budget.reserve(51)
