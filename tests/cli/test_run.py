"""``pacore run``: a batch that survives being killed, and goes on where it stopped."""

from __future__ import annotations

import json
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.command import pacore, start
from support.endpoint import Answer, MockEndpoint, Status, question_of

PROBLEMS = 12
CALLS = PROBLEMS * 5


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    path = tmp_path / "problems.jsonl"
    records = [
        {"id": f"p{n}", "question": f"question {n}", "ground_truth": n, "level": "easy"}
        for n in range(PROBLEMS)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def command(upstream: MockEndpoint, problems: Path, *more: str) -> list[str]:
    out = str(problems.parent / "out")
    return ["run", str(problems), "--out", out, "--base-url", upstream.url, "--model", "m", *more]


def results(problems: Path) -> dict[str, dict[str, Any]]:
    lines = (problems.parent / "out" / "results.jsonl").read_text().splitlines()
    found = {record["id"]: record for record in map(json.loads, lines)}
    assert len(found) == len(lines)
    return found


def without_times(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        key: {name: value for name, value in record.items() if name != "wall_s"}
        for key, record in found.items()
    }


async def test_results_carry_the_records_keys_and_a_second_run_makes_no_call(
    upstream: MockEndpoint, problems: Path
) -> None:
    upstream.behaviour = lambda body: f"{body['seed']}"
    outcome = await pacore(*command(upstream, problems))
    assert (outcome.status, outcome.out) == (0, "")
    found = results(problems)
    assert {(record["ground_truth"], record["level"]) for record in found.values()} == {
        (n, "easy") for n in range(PROBLEMS)
    }
    assert len(list((problems.parent / "out" / "trace").iterdir())) == PROBLEMS
    assert (await pacore(*command(upstream, problems))).status == 0
    assert len(upstream.requests) == CALLS


async def test_ids_that_are_numbers_and_keys_of_our_own_names_come_out_as_they_were(
    upstream: MockEndpoint, tmp_path: Path
) -> None:
    path = tmp_path / "numbered.jsonl"
    path.write_text('{"id": 7, "question": "six times seven?", "answer": "42", "level": 1}\n')
    assert (await pacore(*command(upstream, path))).status == 0
    (record,) = map(json.loads, (tmp_path / "out" / "results.jsonl").read_text().splitlines())
    assert (record["id"], record["level"], record["carried"]) == (7, 1, {"answer": "42"})
    assert (await pacore(*command(upstream, path))).status == 0
    assert len(upstream.requests) == 5


async def test_another_model_in_the_same_directory_is_refused(upstream: MockEndpoint, problems: Path) -> None:
    upstream.models = {"data": [{"id": "first"}]}
    upstream.behaviour = lambda body: (
        Answer(f"{body['seed']}") if len(upstream.requests) < 9 else Status(401, {})
    )
    arguments = ["run", str(problems), "--out", str(problems.parent / "out"), "--base-url", upstream.url]
    assert (await pacore(*arguments)).status == 1
    upstream.models = {"data": [{"id": "second"}]}
    outcome = await pacore(*arguments)
    assert outcome.status == 1
    assert "begun with other settings (models was" in outcome.err


async def test_killed_twice_no_finished_call_is_repeated_and_the_results_are_the_same(
    upstream: MockEndpoint, problems: Path, tmp_path: Path
) -> None:
    answered: Counter[tuple[int, str]] = Counter()

    async def behaviour(body: dict[str, Any]) -> Answer:
        # What is answered here has been sent whole; it may or may not have been read before a kill.
        answered[body["seed"], question_of(body)] += 1
        return Answer(f"answer {body['seed']}", seconds=0.01)

    upstream.behaviour = behaviour
    for kill_at in (17, 41):
        process = await start(*command(upstream, problems, "--concurrency", "4"))
        await upstream.wait_for_requests(kill_at)
        process.send_signal(signal.SIGKILL)
        await process.communicate()
    assert (await pacore(*command(upstream, problems, "--concurrency", "4"))).status == 0
    # Only what was in flight at a kill, at most 4 calls each time, was asked for again.
    assert len(answered) == CALLS
    assert sum(count - 1 for count in answered.values()) <= 2 * 4
    finished = results(problems)

    unbroken = tmp_path / "unbroken"
    unbroken.mkdir()
    again = unbroken / "problems.jsonl"
    shutil.copy(problems, again)
    assert (await pacore(*command(upstream, again, "--concurrency", "4"))).status == 0
    assert without_times(finished) == without_times(results(again))


async def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(
    upstream: MockEndpoint, problems: Path
) -> None:
    upstream.behaviour = lambda body: Answer(f"{body['seed']}", seconds=0.01)
    process = await start(*command(upstream, problems, "--concurrency", "2"))
    await upstream.wait_for_requests(31)
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert process.returncode == 130
    assert b"run the same command again to go on" in err
    assert b"Traceback" not in err
    assert (await pacore(*command(upstream, problems))).status == 0
    assert len(results(problems)) == PROBLEMS
    assert len(upstream.requests) <= CALLS + 2


async def test_failed_problems_end_with_2_and_can_be_tried_again(
    upstream: MockEndpoint, problems: Path
) -> None:
    upstream.behaviour = lambda body: (
        Status(400, {"error": {"message": "not this one"}})
        if "question 3" in question_of(body)
        else f"{body['seed']}"
    )
    outcome = await pacore(*command(upstream, problems))
    assert outcome.status == 2
    assert "11 complete, 1 failed of 12" in outcome.err
    record = results(problems)["p3"]
    assert (record["status"], record["answer"]) == ("failed", None)
    assert "not this one" in record["warnings"][-1]["text"]
    upstream.behaviour = lambda body: f"{body['seed']}"
    assert (await pacore(*command(upstream, problems))).status == 2
    assert (await pacore(*command(upstream, problems, "--retry-failed"))).status == 0
    assert results(problems)["p3"]["status"] == "complete"


async def test_a_refusal_is_told_in_the_endpoints_words_with_status_1(
    upstream: MockEndpoint, problems: Path
) -> None:
    upstream.behaviour = lambda body: Status(401, {"error": {"message": "Incorrect API key provided"}})
    outcome = await pacore(*command(upstream, problems))
    assert outcome.status == 1
    assert "Incorrect API key provided" in outcome.err
    assert "0 of 12 problems are done" in outcome.err


async def test_other_settings_need_another_directory(upstream: MockEndpoint, problems: Path) -> None:
    await pacore(*command(upstream, problems))
    outcome = await pacore(*command(upstream, problems, "--schedule", "medium"))
    assert outcome.status == 1
    assert "was begun with other settings (schedule was" in outcome.err
    assert (await pacore(*command(upstream, problems, "--concurrency", "3"))).status == 0


async def test_a_bad_line_is_told_before_anything_is_spent(upstream: MockEndpoint, problems: Path) -> None:
    with problems.open("a") as file:
        file.write("{broken\n")
    outcome = await pacore(*command(upstream, problems))
    assert outcome.status == 1
    assert f"problems.jsonl:{PROBLEMS + 1}: not JSON" in outcome.err
    assert not upstream.requests


async def test_a_deadline_leaves_the_rest_for_another_run(upstream: MockEndpoint, problems: Path) -> None:
    upstream.behaviour = lambda body: Answer(f"{body['seed']}", seconds=0.15)
    outcome = await pacore(*command(upstream, problems, "--concurrency", "4", "--deadline", "1"))
    assert outcome.status == 2
    assert "were not begun, as time or budget was up" in outcome.err
    begun = len(results(problems))
    assert 0 < begun < PROBLEMS
    assert (await pacore(*command(upstream, problems, "--retry-failed"))).status == 0


async def test_a_missing_file_is_told(upstream: MockEndpoint, tmp_path: Path) -> None:
    outcome = await pacore(*command(upstream, tmp_path / "none.jsonl"))
    assert outcome.status == 1
    assert "there is no file" in outcome.err
