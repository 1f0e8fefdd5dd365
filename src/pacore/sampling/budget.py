"""The ledger of a run: what has been spent, what is in flight, and what is set aside for last rounds.

A ceiling holds because no call is sent that could break it: a call reserves its cap of tokens (and
their price) first, and gets a cap that what is left can pay for.
"""

from __future__ import annotations

import asyncio
import math

from pacore.config import Budget, Prices
from pacore.errors import BudgetExhaustedError
from pacore.types import Usage

MIN_CAP = 16
"""A call with a smaller cap of tokens could not say anything of use."""


class Ledger:
    """Accounts of one run against its token and money ceilings.

    Tokens are generated tokens; money covers prompts too. ``planned_calls`` is the number of calls of
    one problem: with no other cap, a call may take an equal share of what is left for that problem.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.spent_tokens = 0
        self.spent_usd = 0.0
        self._reserved_tokens = 0
        self._reserved_usd = 0.0
        self._aside: dict[str, tuple[int, float]] = {}
        self._changed = asyncio.Event()
        self.refused = False

    @property
    def limits_calls(self) -> bool:
        """Whether there is a token or money ceiling at all."""
        return self.budget.tokens is not None or self.budget.usd is not None

    def set_aside(self, problem_id: str, cap: int | None, planned_calls: int) -> None:
        """Keep the last round's share of a problem out of the reach of its earlier rounds."""
        tokens = self._left_tokens() / planned_calls
        if cap is not None:
            tokens = min(tokens, cap)
        self._aside[problem_id] = (
            0 if math.isinf(tokens) else int(tokens),
            0.0 if self.budget.usd is None else self._left_usd() / planned_calls,
        )

    def give_back(self, problem_id: str) -> None:
        """The problem is over, or its last round is about to use what was set aside."""
        self._aside.pop(problem_id, None)
        self._changed.set()

    def share(self, calls_left: int, prompt_tokens: int, prices: Prices | None) -> int | None:
        """The cap of tokens that lets ``calls_left`` equal calls stay within the budget.

        ``None`` where nothing limits; 0 where nothing is left.
        """
        shares = [self._left_tokens() / calls_left]
        if self.budget.usd is not None and prices is not None and prices.completion > 0:
            for_one = self._left_usd() / calls_left - _usd(prices, prompt_tokens, 0)
            shares.append(for_one / prices.completion * 1e6)
        least = min(shares)
        return None if math.isinf(least) else max(0, int(least))

    def final_share(self, problem_id: str, prompt_tokens: int, prices: Prices | None) -> int | None:
        """The cap of a problem's last call: what was set aside for it, or all that is left if it is alone.

        What was set aside is free for that call from now on.
        """
        tokens, _ = self._aside.get(problem_id, (0, 0.0))
        alone = len(self._aside) <= 1 and not self._reserved_tokens
        self.give_back(problem_id)
        left = self.share(1, prompt_tokens, prices)
        return left if left is None or alone or not tokens else min(tokens, left)

    async def reserve(self, cap: int, prompt_tokens: int, prices: Prices | None) -> Reservation:
        """Reserve the cost of one attempt, waiting for calls in flight to settle where that can help.

        Raises BudgetExhaustedError where the rest pays for no call worth making.
        """
        while True:
            affordable = self._affordable(prompt_tokens, prices)
            if affordable >= cap:
                return Reservation(self, cap, _usd(prices, prompt_tokens, cap), prices)
            if not self._reserved_tokens:
                if affordable < MIN_CAP:
                    self.refused = True
                    raise BudgetExhaustedError(f"the budget is used up: {self.describe()}")
                cap = int(affordable)
                continue
            self._changed.clear()
            await self._changed.wait()

    def describe(self) -> str:
        """What was spent of what, in words."""
        parts = []
        if self.budget.tokens is not None:
            parts.append(f"{self.spent_tokens} of {self.budget.tokens} tokens spent")
        if self.budget.usd is not None:
            parts.append(f"{self.spent_usd:.4f} of {self.budget.usd:.4f} dollars spent")
        return ", ".join(parts)

    def record(self, usage: Usage, prices: Prices | None) -> None:
        """Count what was spent outside a reservation: trajectories that a resumed run already had."""
        self.spent_tokens += usage.completion_tokens
        self.spent_usd += usage_cost(usage, prices)
        self._changed.set()

    def _affordable(self, prompt_tokens: int, prices: Prices | None) -> float:
        tokens = self._left_tokens() - self._reserved_tokens
        if self.budget.usd is not None and prices is not None and prices.completion > 0:
            usd = self._left_usd() - self._reserved_usd - _usd(prices, prompt_tokens, 0)
            tokens = min(tokens, usd / prices.completion * 1e6)
        return tokens

    def _left_tokens(self) -> float:
        if self.budget.tokens is None:
            return math.inf
        return self.budget.tokens - self.spent_tokens - sum(tokens for tokens, _ in self._aside.values())

    def _left_usd(self) -> float:
        if self.budget.usd is None:
            return math.inf
        return self.budget.usd - self.spent_usd - sum(usd for _, usd in self._aside.values())


class Reservation:
    """What one attempt may cost at most; settle it with what it did cost, once."""

    def __init__(self, ledger: Ledger, cap: int, usd: float, prices: Prices | None) -> None:
        self.cap = cap
        self._ledger = ledger
        self._usd = usd
        self._prices = prices
        ledger._reserved_tokens += cap
        ledger._reserved_usd += usd

    def settle(self, usage: Usage) -> None:
        """Replace the reservation by the true cost."""
        ledger = self._ledger
        ledger._reserved_tokens -= self.cap
        ledger._reserved_usd -= self._usd
        ledger.record(usage, self._prices)


def usage_cost(usage: Usage, prices: Prices | None) -> float:
    """The price of ``usage`` in dollars; 0 without prices."""
    if prices is None:
        return 0.0
    cached_price = prices.prompt if prices.cached is None else prices.cached
    fresh = usage.prompt_tokens - usage.cached_tokens
    return (
        fresh * prices.prompt
        + usage.cached_tokens * cached_price
        + usage.completion_tokens * prices.completion
    ) / 1e6


def _usd(prices: Prices | None, prompt_tokens: int, completion_tokens: int) -> float:
    return usage_cost(Usage(prompt_tokens=prompt_tokens, completion_tokens=completion_tokens), prices)
