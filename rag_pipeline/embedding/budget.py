"""What a refresh may spend on embedding, and what it has spent."""

from __future__ import annotations

import threading

from rag_pipeline.errors import BudgetError, ConfigError


class Budget:
    """Counts tokens before they are sent and corrects the count when the provider says what they were.

    Args:
        tokens: how many may be sent; None is no limit.
        usd: how much they may cost; None is no limit.
        usd_per_token: the model's price; None when nobody knows it.

    Raises:
        ConfigError: a limit in money was set and the price is not known.
    """

    def __init__(self, tokens: int | None = None, usd: float | None = None, usd_per_token: float | None = None) -> None:
        if usd is not None and usd_per_token is None:
            raise ConfigError(
                "budget.usd_per_refresh: the price of this model is not known; set embedding.usd_per_million_tokens, or "
                "budget.tokens_per_refresh instead"
            )
        self._limit = tokens
        self._binding = ("budget.tokens_per_refresh", _tokens(tokens or 0))
        if usd is not None and usd_per_token:
            affordable = int(usd / usd_per_token * (1 + 1e-9))
            if tokens is None or affordable < tokens:
                self._limit, self._binding = affordable, ("budget.usd_per_refresh", f"{usd:g} USD")
        self._usd_per_token = usd_per_token
        self._reserved = 0
        self._smallest_refused: int | None = None
        self._lock = threading.Lock()
        self.spent_tokens = 0

    @property
    def limited(self) -> bool:
        return self._limit is not None

    @property
    def left(self) -> int | None:
        """How many tokens may still be reserved; None without a limit."""
        with self._lock:
            return None if self._limit is None else max(self._limit - self.spent_tokens - self._reserved, 0)

    def overrun(self, tokens: int) -> str | None:
        """Which limit so many tokens more would pass, for people; None when they would not."""
        left = self.left
        if left is None or tokens <= left:
            return None
        cost = f" ({tokens * self._usd_per_token:.4f} USD)" if self._usd_per_token else ""
        key, limit = self._binding
        return f"about {_tokens(tokens)}{cost} are to be sent, {key} allows {limit}"

    @property
    def spent_usd(self) -> float | None:
        return None if self._usd_per_token is None else self.spent_tokens * self._usd_per_token

    def reserve(self, tokens: int) -> None:
        """
        Raises:
            BudgetError: with what is under way and these the limit would be passed.
        """
        with self._lock:
            if self._limit is not None and self.spent_tokens + self._reserved + tokens > self._limit:
                if self._smallest_refused is None or tokens < self._smallest_refused:
                    self._smallest_refused = tokens
                raise self._used_up()
            self._smallest_refused = None
            self._reserved += tokens

    def settle(self, reserved: int, spent: int) -> None:
        """A reservation became ``spent`` tokens, 0 when nothing came of it."""
        with self._lock:
            self._reserved -= reserved
            self.spent_tokens += spent

    def exhausted(self, text_tokens: int | None = None) -> BudgetError:
        """What to raise when there is no room even for a single text.

        Args:
            text_tokens: what that text needs; by default the least that was refused since something was granted.
        """
        needed = self._smallest_refused if text_tokens is None else text_tokens
        if needed is None or self._limit is None or needed <= self._limit:
            return self._used_up()
        key, limit = self._binding
        return BudgetError(
            f"the embedding budget of a refresh is too small: a single text needs {_tokens(needed)}, more than all of "
            f"{limit}. Refreshing again cannot help: raise {key}. What was embedded is kept ({self._spent()} spent)"
        )

    def _spent(self) -> str:
        return _tokens(self.spent_tokens) + (f" ({self.spent_usd:.4f} USD)" if self.spent_usd else "")

    def _used_up(self) -> BudgetError:
        key, limit = self._binding
        return BudgetError(
            f"the embedding budget of this refresh is used up: {self._spent()} spent, the next request would pass {limit}. "
            f"What was embedded is kept: refresh again to go on, or raise {key}"
        )


def _tokens(count: int) -> str:
    return "1 token" if count == 1 else f"{count} tokens"
