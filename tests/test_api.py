"""The Python interface, as a user calls it."""

from __future__ import annotations

import asyncio

import pytest

import pacore
from pacore.errors import ConfigError, EndpointRefusedError, ProblemError
from support.endpoint import MockEndpoint
from support.running import QUESTION


async def test_solve_answers_over_an_endpoint(upstream: MockEndpoint) -> None:
    result = await pacore.solve(QUESTION, endpoint=upstream.endpoint())
    assert result.answer == "The answer is \\boxed{24}."
    assert len(upstream.requests) == 5


async def test_a_base_url_is_endpoint_enough(upstream: MockEndpoint) -> None:
    upstream.models = {"data": [{"id": "only"}]}
    result = await pacore.solve(QUESTION, endpoint=upstream.url, schedule="single")
    assert result.status == "complete"
    assert upstream.requests[0]["model"] == "only"


async def test_solve_sync_works_inside_a_running_loop(upstream: MockEndpoint) -> None:
    endpoint = upstream.endpoint()
    # The mock lives in this loop, so the blocking call goes to a thread, as a notebook's cell would block.
    result = await asyncio.to_thread(pacore.solve_sync, QUESTION, endpoint=endpoint)
    assert result.status == "complete"


async def test_solve_sync_blocks_a_running_loop_and_answers() -> None:
    sampler = pacore.ScriptedSampler(lambda call: "24")
    assert asyncio.get_running_loop().is_running()
    assert pacore.solve_sync(QUESTION, endpoint=sampler).answer == "24"


async def test_solve_sync_raises_what_solve_raises_inside_a_running_loop() -> None:
    with pytest.raises(ConfigError, match="no schedule"):
        pacore.solve_sync(QUESTION, endpoint=pacore.ScriptedSampler([]), schedule="nonsense")


def test_solve_sync_works_without_a_loop() -> None:
    sampler = pacore.ScriptedSampler(lambda call: "24")
    assert pacore.solve_sync(QUESTION, endpoint=sampler).answer == "24"


async def test_a_wrong_address_is_told_at_once() -> None:
    with pytest.raises(EndpointRefusedError, match="nothing answers"):
        await pacore.solve(QUESTION, endpoint="http://127.0.0.1:9/v1")


async def test_an_endpoint_named_by_a_schedule_must_be_there() -> None:
    schedule = pacore.Schedule(fallback="gone")
    with pytest.raises(ConfigError, match="names the endpoint 'gone', which is not configured"):
        await pacore.solve(QUESTION, endpoint=pacore.ScriptedSampler([]), schedule=schedule)


@pytest.mark.parametrize(
    "problem", ["", "  ", [], {"id": 3}, [{"role": "system", "content": "x"}], {"question": 3}]
)
async def test_a_problem_that_asks_nothing_is_told(problem: object) -> None:
    with pytest.raises(ProblemError):
        await pacore.solve(problem, endpoint=pacore.ScriptedSampler([]))  # type: ignore[arg-type]


async def test_a_sampler_of_ones_own_needs_two_members(upstream: MockEndpoint) -> None:
    from pacore.sampling.sampler import Call, Capabilities, Watcher
    from pacore.types import Trajectory, Usage

    class Constant:
        capabilities = Capabilities(window=100)

        async def sample(self, call: Call, watcher: Watcher) -> Trajectory:
            return call.trajectory("complete", content=f"{call.seed}", usage=Usage(completion_tokens=3))

    result = await pacore.solve(QUESTION, endpoint=Constant(), schedule="4")
    assert result.ttc_tokens == 15


def test_every_public_name_is_there() -> None:
    for name in pacore.__all__:
        assert getattr(pacore, name) is not None
    with pytest.raises(AttributeError):
        _ = pacore.nonsense
