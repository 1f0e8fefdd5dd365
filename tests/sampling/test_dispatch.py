"""Calls are tried again where that can help, under the limits of endpoint, run and budget."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pacore.config import Budget, Retries
from pacore.errors import ContextOverflowError, EndpointRefusedError
from pacore.sampling.budget import Ledger
from pacore.sampling.dispatch import Dispatcher
from pacore.sampling.openai import EndpointSampler
from pacore.sampling.sampler import Sampler
from pacore.sampling.slots import CallSlots
from pacore.types import SamplingParams, Trajectory
from support.endpoint import Answer, MockEndpoint, Raw, Reply, Status, event
from support.watching import Watching, a_call


def in_turn(*replies: Reply) -> Callable[[dict[str, Any]], Reply]:
    rest: Iterator[Reply] = iter(replies)
    return lambda body: next(rest)


def dispatcher(
    sampler: Sampler, *, budget: Budget | None = None, slots: int = 64, **retries: Any
) -> Dispatcher:
    settings = {"attempts": 3, "base_s": 0.001, "cap_s": 0.01, **retries}
    return Dispatcher(
        sampler,
        slots=CallSlots(slots),
        run_slots=CallSlots(slots),
        retries=Retries(**settings),
        ledger=Ledger(budget or Budget()),
        name="mock",
    )


async def dispatched(upstream: MockEndpoint, watcher: Watching | None = None, **settings: Any) -> Trajectory:
    async with EndpointSampler(upstream.endpoint()) as sampler:
        return await dispatcher(sampler, **settings).sample(a_call(), watcher or Watching())


async def test_a_transient_fault_is_tried_again(upstream: MockEndpoint) -> None:
    upstream.behaviour = in_turn(Status(503, {}), Raw([event({"content": "2"})], cut=True), Answer("24"))
    watcher = Watching()
    trajectory = await dispatched(upstream, watcher)
    assert (trajectory.status, trajectory.content, trajectory.attempts) == ("complete", "24", 3)
    assert [attempt for attempt, _, _ in watcher.retries] == [1, 2]
    assert watcher.starts == 1
    assert watcher.content == "24"


async def test_the_tokens_of_void_attempts_count(upstream: MockEndpoint) -> None:
    upstream.behaviour = in_turn(Raw([event({"content": "x" * 400})], cut=True), Answer("24"))
    usage = (await dispatched(upstream)).usage
    assert (usage.completion_tokens, usage.estimated) == (107, True)


async def test_after_the_last_attempt_the_failure_is_a_trajectory_with_the_endpoints_words(
    upstream: MockEndpoint,
) -> None:
    upstream.behaviour = lambda body: Status(500, {"error": {"message": "engine died"}})
    trajectory = await dispatched(upstream)
    assert trajectory.status == "failed"
    assert trajectory.content == ""
    assert trajectory.error is not None
    assert "engine died" in trajectory.error
    assert "tried 3 times" in trajectory.error
    assert len(upstream.requests) == 3


async def test_retry_after_is_waited_for(upstream: MockEndpoint) -> None:
    upstream.behaviour = in_turn(Status(429, {}, {"Retry-After": "1"}), Answer("24"))
    watcher = Watching()
    begun = time.monotonic()
    await dispatched(upstream, watcher)
    assert time.monotonic() - begun >= 1.0
    assert 1.0 <= watcher.retries[0][2] < 1.1


async def test_an_empty_answer_is_tried_again_with_another_seed(upstream: MockEndpoint) -> None:
    upstream.behaviour = in_turn(Answer(None), Answer("24"))
    trajectory = await dispatched(upstream)
    assert trajectory.content == "24"
    assert trajectory.usage.completion_tokens == 14
    first, second = (request["seed"] for request in upstream.requests)
    assert first != second
    assert trajectory.seed == second


async def test_an_answer_that_stays_empty_is_reported_as_empty(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Answer("")
    trajectory = await dispatched(upstream)
    assert (trajectory.status, trajectory.attempts, trajectory.usage.completion_tokens) == ("empty", 3, 21)


async def test_another_4xx_is_not_tried_again(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Status(422, {"detail": "bad role"})
    trajectory = await dispatched(upstream)
    assert trajectory.status == "failed"
    assert len(upstream.requests) == 1


async def test_a_refusal_concerns_the_whole_run(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Status(402, {"error": {"message": "no credit"}})
    with pytest.raises(EndpointRefusedError, match="no credit"):
        await dispatched(upstream)
    assert len(upstream.requests) == 1


async def test_an_overflow_goes_to_whoever_made_the_prompt(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Status(
        400, {"error": {"code": "context_length_exceeded", "message": ""}}
    )
    with pytest.raises(ContextOverflowError):
        await dispatched(upstream)


async def test_no_more_calls_are_in_flight_than_slots(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Answer(seconds=0.01)
    async with EndpointSampler(upstream.endpoint()) as sampler:
        made = dispatcher(sampler, slots=3)
        await asyncio.gather(*(made.sample(a_call(index=index), Watching()) for index in range(12)))
    assert upstream.most_in_flight == 3


async def test_a_waiting_attempt_holds_no_slot(upstream: MockEndpoint) -> None:
    answered = asyncio.Event()

    def behaviour(body: dict[str, Any]) -> Reply:
        if body["seed"] == 1 and not answered.is_set():
            return Status(429, {}, {"Retry-After": "0.2"})
        answered.set()
        return Answer("24")

    upstream.behaviour = behaviour
    async with EndpointSampler(upstream.endpoint()) as sampler:
        made = dispatcher(sampler, slots=1)
        first, second = await asyncio.gather(
            made.sample(a_call(seed=1), Watching()), made.sample(a_call(seed=2), Watching())
        )
    assert (first.attempts, second.attempts) == (2, 1)


async def test_a_budget_caps_every_call_and_holds(upstream: MockEndpoint) -> None:
    def behaviour(body: dict[str, Any]) -> Reply:
        cap = body["max_tokens"]
        return Answer("x", usage={"prompt_tokens": 1, "completion_tokens": cap}, finish_reason="length")

    upstream.behaviour = behaviour
    async with EndpointSampler(upstream.endpoint()) as sampler:
        made = dispatcher(sampler, budget=Budget(tokens=100))
        calls = [a_call(index=i, sampling=SamplingParams(max_tokens=40)) for i in range(4)]
        trajectories = await asyncio.gather(*(made.sample(call, Watching()) for call in calls))
    assert [body["max_tokens"] for body in upstream.requests] == [40, 40, 20]
    assert sum(trajectory.usage.completion_tokens for trajectory in trajectories) == 100
    assert trajectories[3].status == "failed"
    assert "budget is used up" in (trajectories[3].error or "")
