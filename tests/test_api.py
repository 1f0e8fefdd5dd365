"""The Python interface, as a user calls it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import pacore
from pacore.errors import ConfigError, EndpointRefusedError, JournalError, ProblemError
from support.endpoint import Hang, MockEndpoint
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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shedule": "2"}, "no option 'shedule'; did you mean 'schedule'"),
        ({"schedule": 4}, "a schedule is a preset"),
        ({"schedule": pacore.Schedule(final_attempts=0)}, "Expected `int` >= 1"),
        ({"schedule": pacore.Schedule(finish="vot")}, "Invalid enum value 'vot'"),  # type: ignore[arg-type]
        ({"sampling": pacore.SamplingParams(temperature=-1)}, "Expected `float` >= 0"),
        ({"endpoint": 5}, "an endpoint is an Endpoint, a base URL or a sampler"),
        ({"endpoint": "http://127.0.0.1:abc/v1"}, "is no web address"),
        ({"concurrency": 0}, "concurrency is at least 1"),
        ({"budget": pacore.Budget(usd=1.0)}, "needs the prices of every endpoint"),
    ],
)
async def test_options_that_make_no_sense_are_told(options: dict[str, Any], words: str) -> None:
    sampler = pacore.ScriptedSampler(lambda call: "24")
    with pytest.raises(ConfigError, match=words):
        await pacore.solve(QUESTION, **{"endpoint": sampler, **options})
    assert not sampler.calls


async def test_a_trace_never_overwrites_a_file_that_is_there(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes\nlast line")
    with pytest.raises(JournalError, match="is there already"):
        await pacore.solve(QUESTION, endpoint=pacore.ScriptedSampler(lambda call: "24"), trace=notes)
    assert notes.read_text() == "my notes\nlast line"


async def test_an_interrupt_while_solve_sync_waits_in_a_loop_ends_its_calls(
    upstream: MockEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.behaviour = lambda body: Hang()
    endpoint = upstream.endpoint()
    real_join = threading.Thread.join
    interrupted: list[bool] = []

    def join(thread: threading.Thread, timeout: float | None = None) -> None:
        if thread.name == "pacore-solve" and not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt
        real_join(thread, timeout)

    async def inside() -> None:
        pacore.solve_sync(QUESTION, endpoint=endpoint)

    monkeypatch.setattr(threading.Thread, "join", join)
    with pytest.raises(KeyboardInterrupt):
        await asyncio.to_thread(lambda: asyncio.run(inside()))
    assert not any(thread.name == "pacore-solve" for thread in threading.enumerate())


def test_every_public_name_is_there() -> None:
    for name in pacore.__all__:
        assert getattr(pacore, name) is not None
    with pytest.raises(AttributeError):
        _ = pacore.nonsense
