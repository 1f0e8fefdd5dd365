"""Message pools: filled through a socket, verified, gone on with, read a row at a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pacore.data.filling import Filled, PoolDirectory, PoolFiller, missing_calls
from pacore.data.pool import MessagePool, pool_key
from pacore.data.record import Record
from pacore.data.truths import MathTruth
from pacore.errors import ConfigError, EndpointRefusedError, JournalError
from pacore.sampling.pool import PoolSampler
from pacore.sampling.sampler import Unwatched
from pacore.sampling.scripted import ScriptedSampler
from pacore.session import EndpointLike, open_session
from pacore.types import Problem, Verdict
from pacore.verifiers.math.verifier import MathVerifier
from support.command import pacore, start
from support.endpoint import Answer, MockEndpoint, Reply, Status
from support.watching import a_call


def records(number: int) -> list[Record]:
    return [
        Record(
            id=f"p{n}",
            messages=({"role": "user", "content": f"question {n}"},),
            truth=MathTruth(answer=str(n)),
        )
        for n in range(number)
    ]


async def fill(
    path: Path,
    endpoint: EndpointLike,
    todo: Iterable[Record],
    *,
    size: int = 4,
    verifier: Any = None,
    settings: Any = None,
) -> Filled:
    async with open_session(endpoint, concurrency=8) as session:
        with PoolDirectory(path, settings or {}, reasoning="packed") as directory:
            filler = PoolFiller(
                session, directory, size=size, verifier=verifier if verifier is not None else MathVerifier()
            )
            return await filler.run(todo)


def by_seed(body: dict[str, Any]) -> Reply:
    """Right for half of the seeds."""
    number = body["messages"][-1]["content"].split()[-1]
    right = body["seed"] % 2 == 0
    return Answer(f"\\boxed{{{number if right else 'x'}}}", reasoning=f"seed {body['seed']}")


async def test_every_problem_gets_its_trajectories_and_verdicts(
    upstream: MockEndpoint, tmp_path: Path
) -> None:
    upstream.behaviour = by_seed
    filled = await fill(tmp_path, upstream.endpoint(), records(5), size=6)
    assert (filled.made, filled.failed, filled.verified) == (30, 0, 30)
    assert len({body["seed"] for body in upstream.requests}) == 30
    with MessagePool(tmp_path) as pool:
        assert [record.id for record in pool.records()] == [f"p{n}" for n in range(5)]
        for name in ("p0", "p4"):
            rows = pool[name]
            right = [row.seed is not None and row.seed % 2 == 0 for row in rows]
            assert len(rows) == 6
            assert pool.accuracy(name) == sum(right) / 6
            assert [ruling.verdict == "correct" for _, ruling in sorted(pool.rulings(name).items())] == right
            assert rows[2].reasoning == f"seed {rows[2].seed}"


async def test_filling_goes_on_where_it_stopped_and_repeats_nothing(
    upstream: MockEndpoint, tmp_path: Path
) -> None:
    upstream.behaviour = by_seed
    await fill(tmp_path, upstream.endpoint(), records(3), size=2)
    await fill(tmp_path, upstream.endpoint(), records(3), size=2)
    assert len(upstream.requests) == 6
    await fill(tmp_path, upstream.endpoint(), records(4), size=5)
    assert len(upstream.requests) == 20
    with MessagePool(tmp_path) as pool:
        assert all(len(pool[f"p{n}"]) == 5 for n in range(4))


async def test_trajectories_without_a_verdict_get_one_later(upstream: MockEndpoint, tmp_path: Path) -> None:
    upstream.behaviour = by_seed
    async with open_session(upstream.endpoint()) as session:
        with PoolDirectory(tmp_path, {}, reasoning="packed") as directory:
            await PoolFiller(session, directory, size=4, verifier=None).run(records(2))
    with MessagePool(tmp_path) as pool:
        assert pool.accuracy("p1") is None
    filled = await fill(tmp_path, upstream.endpoint(), records(2))
    assert (filled.made, filled.verified) == (0, 8)
    assert len(upstream.requests) == 8


async def test_what_concluded_nothing_counts_as_wrong_and_is_no_message(
    upstream: MockEndpoint, tmp_path: Path
) -> None:
    replies = iter([Answer("\\boxed{0}", finish_reason="length"), Answer("\\boxed{0}"), Answer("no")])
    upstream.behaviour = lambda body: next(replies)
    await fill(tmp_path, upstream.endpoint(), records(1), size=3)
    with MessagePool(tmp_path) as pool:
        reasons = Counter(ruling.reason for ruling in pool.rulings("p0").values())
        assert reasons["no_conclusion: truncated"] == 1
        assert pool.accuracy("p0") == pytest.approx(1 / 3)
        assert sorted(response.content for response in pool.responses("p0")) == ["\\boxed{0}", "no"]


async def test_failed_calls_are_counted_and_made_again(upstream: MockEndpoint, tmp_path: Path) -> None:
    upstream.behaviour = lambda body: Status(400, {"error": {"message": "no such thing"}})
    filled = await fill(tmp_path, upstream.endpoint(), records(1), size=2)
    assert (filled.made, filled.failed) == (0, 2)
    assert any("no such thing" in reason for reason in filled.reasons)
    upstream.behaviour = by_seed
    assert (await fill(tmp_path, upstream.endpoint(), records(1), size=2)).made == 2


async def test_a_refused_key_stops_at_once(upstream: MockEndpoint, tmp_path: Path) -> None:
    upstream.behaviour = lambda body: Status(401, {"error": {"message": "bad key"}})
    with pytest.raises(EndpointRefusedError, match="bad key"):
        await fill(tmp_path, upstream.endpoint(), records(500), size=24)
    assert len(upstream.requests) < 40


async def test_another_question_under_a_known_id_is_refused(upstream: MockEndpoint, tmp_path: Path) -> None:
    await fill(tmp_path, upstream.endpoint(), records(1))
    changed = Record(id="p0", messages=({"role": "user", "content": "another"},))
    with pytest.raises(JournalError, match="'p0' is not the one"):
        await fill(tmp_path, upstream.endpoint(), [changed])
    with pytest.raises(JournalError, match="other settings"):
        await fill(tmp_path, upstream.endpoint(), [], settings={"seed": 1})
        await fill(tmp_path, upstream.endpoint(), [], settings={"seed": 2})


async def test_a_verifier_that_cannot_decide_is_not_taken_for_wrong(
    upstream: MockEndpoint, tmp_path: Path
) -> None:
    class Undecided:
        async def verify(self, problem: Problem, text: str) -> Verdict:
            return Verdict(verdict="unverifiable", reason="who knows")

    await fill(tmp_path, upstream.endpoint(), records(1), verifier=Undecided())
    with MessagePool(tmp_path) as pool:
        assert pool.unverifiable("p0") == 1.0


async def test_rounds_are_drawn_from_a_pool_on_disk(upstream: MockEndpoint, tmp_path: Path) -> None:
    upstream.behaviour = by_seed
    await fill(tmp_path, upstream.endpoint(), records(1), size=16)
    with MessagePool(tmp_path) as pool:
        sampler = PoolSampler(pool, ScriptedSampler([]))
        drawn = [await sampler.sample(a_call(index=n, problem_id="p0"), Unwatched()) for n in range(16)]
        assert len({trajectory.reasoning for trajectory in drawn}) == 16
        assert {trajectory.source for trajectory in drawn} == {"pool"}


def test_no_pool_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no pool"):
        MessagePool(tmp_path)


def write_problems(path: Path, number: int) -> Path:
    file = path / "problems.jsonl"
    rows = [{"id": f"p{n}", "question": f"question {n}", "ground_truth": str(n)} for n in range(number)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


async def test_the_command_fills_and_tells_each_accuracy(upstream: MockEndpoint, tmp_path: Path) -> None:
    upstream.behaviour = by_seed
    problems = write_problems(tmp_path, 3)
    command = ("data", "pool", str(problems), "--out", "pool", "-n", "4", "--base-url", upstream.url)
    outcome = await pacore(*command, "--model", "mock", cwd=tmp_path)
    assert outcome.status == 0, outcome.err
    rows = [json.loads(line) for line in outcome.out.splitlines()]
    assert [row["trajectories"] for row in rows] == [4, 4, 4]
    assert "12 trajectories made" in outcome.err
    other = await pacore(*command, "--model", "mock", "--seed", "1", cwd=tmp_path)
    assert (other.status, "other settings" in other.err) == (1, True)


@pytest.mark.slow
async def test_a_killed_command_goes_on_and_ends_as_an_undisturbed_one(
    upstream: MockEndpoint, tmp_path: Path
) -> None:
    upstream.behaviour = by_seed
    problems = write_problems(tmp_path, 20)

    def command(out: str) -> tuple[str, ...]:
        pool = ("data", "pool", str(problems), "--out", out, "-n", "10", "--concurrency", "4")
        return (*pool, "--base-url", upstream.url, "--model", "mock", "--quiet")

    for killed_after in (30, 90, 150):
        process = await start(*command("killed"), cwd=tmp_path)
        await upstream.wait_for_requests(killed_after)
        os.kill(process.pid, signal.SIGKILL)
        await process.communicate()
    assert (await pacore(*command("killed"), cwd=tmp_path)).status == 0
    made = len(upstream.requests)
    assert made <= 200 + 3 * 4, "finished calls were repeated"
    assert (await pacore(*command("whole"), cwd=tmp_path)).status == 0
    with MessagePool(tmp_path / "killed") as killed, MessagePool(tmp_path / "whole") as whole:
        for n in range(20):
            one, other = killed[f"p{n}"], whole[f"p{n}"]
            assert [t.content for t in one] == [t.content for t in other]
            assert killed.accuracy(f"p{n}") == whole.accuracy(f"p{n}")


LARGE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from support.memory import peak_mib
from pacore.data.filling import PoolDirectory
from pacore.data.pool import MessagePool, pool_key
from pacore.types import Trajectory
path, text = Path(sys.argv[1]), "".join(f"the square of {n} is {n * n}, " for n in range(4_000))[:100_000]
with PoolDirectory(path, {}, reasoning="packed") as directory:
    for problem in range(30):
        for index in range(512):
            reasoning = text[index:] + str(problem)
            directory.store.append(
                pool_key(f"p{problem}", index),
                Trajectory(round=1, index=index, status="complete", content=f"{index}", reasoning=reasoning),
            )
with MessagePool(path) as pool:
    assert len(pool["p29"]) == 512
    assert sum(len(pool[f"p{n}"][511].reasoning) for n in range(30)) > 2_900_000
print(peak_mib())
"""


@pytest.mark.slow
def test_a_pool_at_full_size_fits_into_little_memory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LARGE, str(tmp_path), str(Path(__file__).parent.parent)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(run.stdout) < 200, "MiB for 30 problems x 512 trajectories x 100 KB"


def test_what_is_missing_is_counted_below_the_size(tmp_path: Path) -> None:
    with PoolDirectory(tmp_path, {}, reasoning="packed") as directory:
        trajectory = a_call().trajectory("complete", content="x")
        for index in (0, 1, 7):
            directory.store.append(pool_key("a#b", index), trajectory)
        assert missing_calls(directory, ["a#b", "c"], 4) == 2 + 4
