"""Budgets are ceilings: no call is sent that could break one."""

from __future__ import annotations

import asyncio

import pytest

from pacore.config import Budget, Prices
from pacore.errors import BudgetExhaustedError
from pacore.sampling.budget import Ledger, usage_cost
from pacore.types import Usage


def spent(tokens: int, prompt: int = 0) -> Usage:
    return Usage(completion_tokens=tokens, prompt_tokens=prompt)


async def test_a_share_leaves_an_equal_part_for_every_call_still_planned() -> None:
    ledger = Ledger(Budget(tokens=1000))
    assert ledger.share(5, 0, None) == 200
    assert Ledger(Budget()).share(5, 0, None) is None


async def test_what_is_set_aside_for_a_last_round_is_out_of_reach_until_then() -> None:
    ledger = Ledger(Budget(tokens=1000))
    ledger.set_aside("p", None, 5)
    assert ledger.share(4, 0, None) == 200
    ledger.record(spent(800), None)
    assert ledger.share(1, 0, None) == 0
    assert ledger.final_share("p", 0, None) == 200


async def test_calls_in_flight_count_at_their_cap() -> None:
    ledger = Ledger(Budget(tokens=100))
    first = await ledger.reserve(60, 0, None)
    waiting = asyncio.create_task(ledger.reserve(60, 0, None))
    await asyncio.sleep(0)
    assert not waiting.done()
    first.settle(spent(10))
    assert (await waiting).cap == 60


async def test_a_call_gets_a_smaller_cap_where_nothing_in_flight_can_free_more() -> None:
    ledger = Ledger(Budget(tokens=100))
    (await ledger.reserve(60, 0, None)).settle(spent(60))
    assert (await ledger.reserve(60, 0, None)).cap == 40


async def test_a_budget_that_pays_for_no_call_refuses_it() -> None:
    ledger = Ledger(Budget(tokens=100))
    (await ledger.reserve(60, 0, None)).settle(spent(95))
    with pytest.raises(BudgetExhaustedError, match="95 of 100 tokens spent"):
        await ledger.reserve(60, 0, None)
    assert ledger.refused


async def test_money_pays_for_prompts_too() -> None:
    prices = Prices(prompt=1.0, completion=10.0, cached=0.1)
    usage = Usage(prompt_tokens=1000, cached_tokens=500, completion_tokens=100)
    assert usage_cost(usage, prices) == pytest.approx((500 * 1.0 + 500 * 0.1 + 100 * 10.0) / 1e6)
    ledger = Ledger(Budget(usd=0.002))
    reservation = await ledger.reserve(1000, 1000, prices)
    assert reservation.cap == 100
    reservation.settle(spent(100, prompt=1000))
    with pytest.raises(BudgetExhaustedError, match=r"0\.0020 of 0\.0020 dollars"):
        await ledger.reserve(1000, 0, prices)
