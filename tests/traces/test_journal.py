"""What is finished is on disk before anything builds on it, and a torn end harms nothing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pacore.coordination.loop import coordinate
from pacore.errors import CallRejectedError, JournalError
from pacore.events import RoundFinished, TrajectoryFinished, TrajectoryProgress
from pacore.problems import read_problem
from pacore.sampling.replay import call_key
from pacore.sampling.sampler import Call
from pacore.sampling.scripted import Line, Script, ScriptedSampler
from pacore.session import open_session
from pacore.traces.journal import Journal, read_events, recorded_trajectories
from pacore.traces.trace import fold_events, read_trace
from pacore.types import AgreementStop, RoundSpec, Schedule
from support.running import QUESTION, of_kind, run_events


def script(call: Call) -> Line:
    return Line(content=f"message {call.round}.{call.index}", reasoning="thoughts", pieces=2)


async def test_a_trajectory_is_on_disk_before_the_next_round_uses_it(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    seen: list[int] = []

    def look(call: Call) -> Line:
        if call.round == 2:
            seen.append(len(recorded_trajectories(path)))
        return script(call)

    await run_events(endpoint=ScriptedSampler(look), schedule="4", trace=path)
    assert seen == [4]


async def test_a_summary_is_asked_for_only_once_its_trajectory_is_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"

    def look(call: Call) -> Line:
        if call.purpose == "summarize":
            assert any(found.index == call.index for found in recorded_trajectories(path))
        return script(call)

    schedule = Schedule(rounds=(RoundSpec(width=4, compact="summary"),))
    await run_events(endpoint=ScriptedSampler(look), schedule=schedule, trace=path)


async def test_reading_back_gives_the_events_less_the_passing_ones(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    events = await run_events(endpoint=ScriptedSampler(script), schedule="4,2", trace=path)
    back = list(read_events(path))
    assert of_kind(back, TrajectoryFinished) == of_kind(events, TrajectoryFinished)
    assert of_kind(back, RoundFinished) == of_kind(events, RoundFinished)
    assert back[-1] == events[-1]
    assert of_kind(events, TrajectoryProgress)
    assert not of_kind(back, TrajectoryProgress)


async def test_a_torn_last_line_is_left_out_and_cut_off_when_writing_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    events = await run_events(endpoint=ScriptedSampler(script), schedule="2", trace=path)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"type":"trajectory_fini')
    assert len(list(read_events(path))) == whole.count(b"\n")
    with Journal(path, resume=True) as journal:
        await journal.write(events[-1])
    assert path.read_bytes() == whole + whole.splitlines(keepends=True)[-1]


def test_a_torn_only_line_leaves_an_empty_journal(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"type":"run_st')
    with Journal(path, resume=True):
        assert path.read_bytes() == b""


async def test_a_broken_line_in_the_middle_is_told_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    await run_events(endpoint=ScriptedSampler(script), schedule="2", trace=path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"{}\n", *lines[2:]]))
    with pytest.raises(JournalError, match=r"t\.jsonl:3 is not an event"):
        list(read_events(path))


async def replayed(path: Path, sampler: ScriptedSampler, schedule: Schedule) -> str | None:
    async with open_session(sampler) as session:
        context = session.context(recorded=recorded_trajectories(path))
        with Journal(path, resume=True) as journal:
            async for event in coordinate(read_problem(QUESTION), schedule, context):
                await journal.write(event)
    trace = read_trace(path)
    assert trace.result is not None
    return trace.result.answer


@pytest.mark.parametrize("lines_kept", range(1, 12))
async def test_a_run_cut_anywhere_goes_on_and_repeats_no_finished_call(
    tmp_path: Path, lines_kept: int
) -> None:
    path = tmp_path / "t.jsonl"
    schedule = Schedule(rounds=(RoundSpec(width=3), RoundSpec(width=2)))
    first = ScriptedSampler(script)
    whole = await run_events(endpoint=first, schedule=schedule, trace=path)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:lines_kept]))
    done = {(t.round, t.index) for t in recorded_trajectories(path)}
    second = ScriptedSampler(script)
    answer = await replayed(path, second, schedule)
    asked = {(call.round, call.index): call.prompt.messages for call in second.calls}
    assert not done & set(asked)
    assert done | set(asked) == {(call.round, call.index) for call in first.calls}
    before = {(call.round, call.index): call.prompt.messages for call in first.calls}
    assert all(before[key] == messages for key, messages in asked.items())
    trace = fold_events(whole)
    assert trace is not None
    assert trace.result is not None
    assert answer == trace.result.answer
    again = read_trace(path)
    assert again.result is not None
    assert again.result.ttc_tokens == trace.result.ttc_tokens
    assert {n: set(r.trajectories) for n, r in again.rounds.items()} == {1: {0, 1, 2}, 2: {0, 1}, 3: {0}}


async def test_retrying_failed_leaves_out_failures_and_all_rounds_after_them(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"

    def faulty(call: Call) -> Line:
        fault = CallRejectedError("not this one") if (call.round, call.index) == (1, 1) else None
        return Line(content=script(call).content, fault=fault)

    schedule = Schedule(rounds=(RoundSpec(width=3), RoundSpec(width=2)))
    await run_events(endpoint=ScriptedSampler(faulty), schedule=schedule, trace=path)
    assert len(recorded_trajectories(path)) == 6
    again = recorded_trajectories(path, retry_failed=True)
    assert sorted((t.round, t.index) for t in again) == [(1, 0), (1, 2)]


async def test_the_exact_prompt_of_every_trajectory_comes_back_out_of_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    for number, schedule in enumerate(("4,2", "best-of-n", "pdr", "no-compaction")):
        path = tmp_path / f"{number}.jsonl"
        sampler = ScriptedSampler(
            lambda call: Line(content="Best: 1") if call.purpose == "select" else script(call)
        )
        await run_events(endpoint=sampler, schedule=schedule, trace=path)
        trace = read_trace(path)
        for call in sampler.calls:
            found = trace.rounds[call.round]
            kind = found.summaries if call.purpose == "summarize" else found.trajectories
            assert trace.prompt_of(kind[call.index]) == call.prompt.messages


async def test_an_export_is_one_json_object_with_everything(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    await run_events(endpoint=ScriptedSampler(script), schedule="4", trace=path)
    exported = msgspec.json.decode(msgspec.json.encode(read_trace(path).export()))
    assert [len(found["trajectories"]) for found in exported["rounds"]] == [4, 1]
    assert exported["result"]["answer"] == "message 2.0"
    assert exported["problem"]["messages"][0]["content"] == QUESTION


async def test_a_full_disk_is_told(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="No space left on device; what was written is kept"):
        await run_events(endpoint=ScriptedSampler(script), schedule="2", trace="/dev/full")


def test_an_empty_file_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.touch()
    with pytest.raises(JournalError, match="holds no run"):
        read_trace(path)
    with pytest.raises(JournalError, match="cannot read the trace"):
        read_trace(tmp_path / "none.jsonl")


CUT_SCHEDULES = {
    "summaries": Schedule(rounds=(RoundSpec(width=3, compact="summary"), RoundSpec(width=2))),
    "subsets": Schedule(rounds=(RoundSpec(width=4), RoundSpec(width=4, reads=2))),
    "judge": Schedule(rounds=(RoundSpec(width=3),), finish="select"),
    "stages": Schedule(rounds=(RoundSpec(width=6, stop=AgreementStop(stage=2)),)),
    "failing": Schedule(rounds=(RoundSpec(width=4),), final_attempts=3),
}


def eventful(name: str) -> Script:
    """A script for each schedule, with a first judge that names nobody and last rounds that break off."""

    def play(call: Call) -> Line:
        if call.purpose == "select":
            return Line(content="Best: 2" if call.index else "none of them")
        if name == "failing" and call.round == 2 and call.index < 2:
            return Line(content="half", finish_reason="length")
        if name == "failing" and call.index == 3:
            return Line(content="x", fault=CallRejectedError("not this one"))
        return Line(content=f"{call.purpose} {call.round}.{call.index}")

    return play


@pytest.mark.parametrize("name", CUT_SCHEDULES)
async def test_every_kind_of_run_goes_on_from_any_line(tmp_path: Path, name: str) -> None:
    whole, schedule = tmp_path / "whole.jsonl", CUT_SCHEDULES[name]
    first = ScriptedSampler(eventful(name))
    await run_events(endpoint=first, schedule=schedule, trace=whole)
    result = read_trace(whole).result
    assert result is not None
    lines = whole.read_bytes().splitlines(keepends=True)
    for kept in range(1, len(lines)):
        path = tmp_path / f"{kept}.jsonl"
        path.write_bytes(b"".join(lines[:kept]))
        done = {call_key(trajectory) for trajectory in recorded_trajectories(path)}
        second = ScriptedSampler(eventful(name))
        assert await replayed(path, second, schedule) == result.answer
        assert {call_key(call) for call in second.calls} == {call_key(call) for call in first.calls} - done
        again = read_trace(path).result
        assert again is not None
        assert (again.status, again.ttc_tokens, again.calls) == (
            result.status,
            result.ttc_tokens,
            result.calls,
        )
        assert [warning.code for warning in again.warnings] == [warning.code for warning in result.warnings]
