"""``pacore view``: a trace, a trajectory, its prompt, and the export."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pacore as library
from pacore.coordination.prompt import render_synthesis
from support.command import pacore
from support.endpoint import Answer, MockEndpoint
from support.running import QUESTION


@pytest.fixture
async def trace(upstream: MockEndpoint, tmp_path: Path) -> Path:
    path = tmp_path / "t.jsonl"
    upstream.behaviour = lambda body: Answer(
        f"message [bold]{body['seed']}[/bold]", reasoning="the way there"
    )
    await library.solve(QUESTION, endpoint=upstream.endpoint(), schedule="4,2", trace=path)
    return path


async def test_rounds_trajectories_and_references_are_shown(trace: Path) -> None:
    outcome = await pacore("view", str(trace), COLUMNS="140")
    assert outcome.status == 0
    lines = outcome.out.splitlines()
    assert any("round 1: 4 of 4 left a message" in line for line in lines)
    (row,) = [line for line in lines if line.startswith("● 2.1")]
    assert all(f"1.{index}" in row for index in range(4))
    assert "[bold]" in row


async def test_one_trajectory_is_shown_whole_with_its_prompt(trace: Path) -> None:
    outcome = await pacore("view", str(trace), "-t", "2.0", "--prompt", "--reasoning", COLUMNS="400")
    found = library.read_trace(trace)
    thought = found.rounds[2].trajectories[0]
    texts = [found.rounds[1].trajectories[reference.index].content for reference in thought.references]
    assert render_synthesis(QUESTION, texts) in outcome.out
    assert "the way there" in outcome.out
    assert f"Reference 1 is 1.{thought.references[0].index}" in outcome.out
    assert f"seed {thought.seed}" in outcome.out


async def test_long_messages_leave_room_for_the_other_columns(upstream: MockEndpoint, tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    upstream.behaviour = lambda body: Answer(f"{body['seed']} " + "long words [/x] and [red] " * 40)
    await library.solve(QUESTION, endpoint=upstream.endpoint(), schedule="4", trace=path)
    outcome = await pacore("view", str(path), COLUMNS="100")
    assert outcome.status == 0
    (row,) = [line for line in outcome.out.splitlines() if line.startswith("● 2.0")]
    assert all(f"1.{index}" in row for index in range(4))
    assert "[/x]" in row


async def test_the_prompt_is_shown_exactly_however_narrow_the_screen(trace: Path) -> None:
    outcome = await pacore("view", str(trace), "-t", "2.0", "--prompt", COLUMNS="40")
    found = library.read_trace(trace)
    (message,) = found.prompt_of(found.rounds[2].trajectories[0])
    assert message["content"] in outcome.out


async def test_the_export_is_json(trace: Path) -> None:
    outcome = await pacore("view", str(trace), "--json")
    assert [len(found["trajectories"]) for found in json.loads(outcome.out)["rounds"]] == [4, 2, 1]


async def test_a_directory_lists_its_problems_and_shows_one(upstream: MockEndpoint, tmp_path: Path) -> None:
    problems = tmp_path / "p.jsonl"
    problems.write_text('{"id": "a/1", "question": "one"}\n{"id": "b", "question": "two"}\n')
    out = str(tmp_path / "out")
    await pacore("run", str(problems), "--out", out, "--base-url", upstream.url, "--model", "m")
    listed = await pacore("view", out)
    assert "a/1" in listed.out
    assert "2 results, 2 traces" in listed.out
    shown = await pacore("view", out, "--id", "a/1")
    assert "problem a/1" in shown.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prompt"], "name it with -t"),
        (["--id", "p"], "--id chooses within the directory"),
        (["-t", "9.9"], "there is no trajectory '9.9'"),
        (["-t", "x"], "there is no trajectory 'x'"),
    ],
)
async def test_what_is_not_there_is_told(trace: Path, arguments: list[str], words: str) -> None:
    outcome = await pacore("view", str(trace), *arguments)
    assert outcome.status == 1
    assert words in outcome.err


async def test_a_file_that_is_no_trace_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("hello\n")
    outcome = await pacore("view", str(path))
    assert outcome.status == 1
    assert "is not an event of a trace" in outcome.err
