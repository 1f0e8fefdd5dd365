"""Many problems at once: results as they come, few open at a time, later rounds first."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pacore.batch import Batch
from pacore.config import Budget
from pacore.coordination.schedules import parse_schedule
from pacore.errors import EndpointRefusedError, JournalError
from pacore.events import RunStarted
from pacore.problems import read_problem
from pacore.sampling.sampler import Call
from pacore.sampling.scripted import Line, ScriptedSampler
from pacore.session import EndpointLike, open_session
from pacore.traces.run_directory import RunDirectory
from pacore.types import Problem
from support.endpoint import Answer, Hang, MockEndpoint, Reply, Status, question_of, reads_references


def problems(number: int) -> list[Problem]:
    return [read_problem({"id": f"p{n}", "question": f"question {n}", "level": n}) for n in range(number)]


async def run_batch(
    path: Path,
    endpoint: EndpointLike,
    todo: list[Problem],
    *,
    schedule: str = "4",
    concurrency: int = 8,
    budget: Budget | None = None,
    reader: Any = None,
    retry_failed: bool = False,
) -> list[dict[str, Any]]:
    async with open_session(endpoint, concurrency=concurrency, budget=budget) as session:
        with RunDirectory(path, {}) as directory:
            if retry_failed:
                directory.forget_failed()
            done = set(directory.statuses())
            batch = Batch(
                session, directory, parse_schedule(schedule), reader=reader, retry_failed=retry_failed
            )
            await batch.run(problem for problem in todo if problem.id not in done)
    return [json.loads(line) for line in (path / "results.jsonl").read_text().splitlines()]


async def test_every_problem_has_a_line_with_its_carried_keys(upstream: MockEndpoint, tmp_path: Path) -> None:
    lines = await run_batch(tmp_path, upstream.endpoint(), problems(12))
    assert sorted(line["id"] for line in lines) == sorted(f"p{n}" for n in range(12))
    assert all(line["status"] == "complete" and line["level"] == int(line["id"][1:]) for line in lines)
    assert len(upstream.requests) == 12 * 5


async def test_a_result_is_written_as_soon_as_its_problem_is_done(
    upstream: MockEndpoint, tmp_path: Path
) -> None:
    seen: list[int] = []

    def behaviour(body: dict[str, Any]) -> Reply:
        results = tmp_path / "results.jsonl"
        seen.append(results.read_bytes().count(b"\n") if results.exists() else 0)
        return Answer(f"{body['seed']}")

    upstream.behaviour = behaviour
    await run_batch(tmp_path, upstream.endpoint(), problems(6), concurrency=4)
    assert seen[-1] >= 4


async def test_a_waiting_call_of_a_later_round_goes_before_earlier_rounds(tmp_path: Path) -> None:
    order: list[tuple[str, int]] = []

    async def script(call: Call) -> Line:
        order.append((call.problem_id, call.round))
        return Line(content="x", seconds=0.001)

    await run_batch(tmp_path, ScriptedSampler(script), problems(6), schedule="4,2", concurrency=2)
    ended = [order.index((f"p{n}", 3)) for n in range(6)]
    assert ended == sorted(ended)
    # When the first problem's answer is asked for, hardly any call of the others has been made.
    assert ended[0] <= 4 + 2 + 4


async def test_only_as_many_problems_are_open_as_the_slots_can_use(tmp_path: Path) -> None:
    opened, most, live = 0, 0, set[str]()

    def reader(problem_id: str, event: Any) -> None:
        nonlocal opened, most
        if isinstance(event, RunStarted):
            live.add(problem_id)
        elif type(event).__name__ == "RunFinished":
            live.discard(problem_id)
        most = max(most, len(live))

    sampler = ScriptedSampler(lambda call: Line(content=f"{call.seed}", seconds=0.03))
    await run_batch(tmp_path, sampler, problems(20), schedule="16", concurrency=16, reader=reader)
    assert most <= 8  # of 20: those with their last call in flight leave slots free


async def test_no_more_calls_are_in_flight_than_asked_for(upstream: MockEndpoint, tmp_path: Path) -> None:
    upstream.behaviour = lambda body: Answer(f"{body['seed']}", seconds=0.002)
    await run_batch(tmp_path, upstream.endpoint(), problems(10), concurrency=5)
    assert upstream.most_in_flight == 5


async def test_a_refusal_stops_all_problems_and_keeps_what_is_done(
    upstream: MockEndpoint, tmp_path: Path
) -> None:
    def behaviour(body: dict[str, Any]) -> Reply:
        if len(upstream.requests) > 30:
            return Status(402, {"error": {"message": "no credit left"}})
        return Answer(f"{body['seed']}")

    upstream.behaviour = behaviour
    with pytest.raises(EndpointRefusedError, match="no credit left"):
        await run_batch(tmp_path, upstream.endpoint(), problems(10), concurrency=2)
    calls = len(upstream.requests)
    assert calls <= 30 + 3
    done = (tmp_path / "results.jsonl").read_text().count("\n")
    assert done >= 1
    upstream.behaviour = lambda body: Answer(f"{body['seed']}")
    lines = await run_batch(tmp_path, upstream.endpoint(), problems(10), concurrency=2)
    assert len(lines) == 10
    repeated = len(upstream.requests) - 10 * 5 - (calls - 30)
    assert repeated in (0, 1), "at most the other call in flight was answered in vain"


async def test_a_cancelled_batch_goes_on_later_without_repeating_a_finished_call(
    upstream: MockEndpoint, tmp_path: Path
) -> None:
    answered = Counter[str]()

    def behaviour(body: dict[str, Any]) -> Reply:
        if len(upstream.requests) > 17:
            return Hang()
        answered[f"{body['seed']}"] += 1
        return Answer(f"{body['seed']}")

    upstream.behaviour = behaviour
    task = asyncio.create_task(run_batch(tmp_path, upstream.endpoint(), problems(6), concurrency=2))
    await upstream.wait_for_requests(19)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await upstream.wait_for_disconnects(2)

    def finish(body: dict[str, Any]) -> Reply:
        answered[f"{body['seed']}"] += 1
        return Answer(f"{body['seed']}")

    upstream.behaviour = finish
    lines = await run_batch(tmp_path, upstream.endpoint(), problems(6), concurrency=2)
    assert [line["status"] for line in lines] == ["complete"] * 6
    assert set(answered.values()) == {1}
    assert len(answered) == 30


async def test_retrying_failed_problems_keeps_their_good_calls(
    upstream: MockEndpoint, tmp_path: Path
) -> None:
    broken = True

    def behaviour(body: dict[str, Any]) -> Reply:
        asks_p1 = "question 1" in question_of(body)
        if broken and asks_p1 and (reads_references(body) or body["seed"] % 2):
            return Status(400, {"error": {"message": "not now"}})
        return Answer(f"{body['seed']}")

    upstream.behaviour = behaviour
    before = await run_batch(tmp_path, upstream.endpoint(), problems(3))
    assert {line["id"]: line["status"] for line in before}["p1"] != "complete"
    again = await run_batch(tmp_path, upstream.endpoint(), problems(3))
    assert again == before
    broken = False
    calls = len(upstream.requests)
    after = await run_batch(tmp_path, upstream.endpoint(), problems(3), retry_failed=True)
    assert {line["id"]: line["status"] for line in after} == {f"p{n}": "complete" for n in range(3)}
    assert len(upstream.requests) - calls <= 5


async def test_a_budget_over_a_batch_is_never_exceeded(upstream: MockEndpoint, tmp_path: Path) -> None:
    def behaviour(body: dict[str, Any]) -> Reply:
        tokens = min(20, body["max_tokens"])
        return Answer(f"{body['seed']}", usage={"prompt_tokens": 1, "completion_tokens": tokens})

    upstream.behaviour = behaviour
    lines = await run_batch(tmp_path, upstream.endpoint(), problems(10), budget=Budget(tokens=520))
    assert sum(line["ttc_tokens"] for line in lines) <= 520
    assert sum(line["status"] == "complete" for line in lines) >= 3
    # What could not be begun has no line: it can be begun with a larger budget.
    assert len(lines) < 10


async def test_another_question_under_the_same_id_is_refused(upstream: MockEndpoint, tmp_path: Path) -> None:
    upstream.behaviour = lambda body: Hang() if reads_references(body) else Answer(f"{body['seed']}")
    task = asyncio.create_task(run_batch(tmp_path, upstream.endpoint(), problems(1)))
    await upstream.wait_for_requests(5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    changed = read_problem({"id": "p0", "question": "another question"})
    with pytest.raises(JournalError, match="'p0' is not the one that"):
        await run_batch(tmp_path, upstream.endpoint(), [changed])


async def test_a_failing_endpoint_does_not_have_every_problem_opened(
    upstream: MockEndpoint, tmp_path: Path
) -> None:
    opened = Counter[str]()
    stop = asyncio.Event()

    def reader(problem_id: str, event: Any) -> None:
        opened[problem_id] += isinstance(event, RunStarted)
        if len(upstream.requests) > 60:
            stop.set()

    upstream.behaviour = lambda body: Status(503, {}, {"Retry-After": "30"})
    task = asyncio.create_task(
        run_batch(tmp_path, upstream.endpoint(), problems(500), concurrency=4, reader=reader)
    )
    await upstream.wait_for_requests(32)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(opened) <= 8
