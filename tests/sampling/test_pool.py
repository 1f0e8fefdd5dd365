"""First rounds drawn from cached trajectories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pacore.errors import ProblemError
from pacore.sampling.pool import PoolFile, Pools, PoolSampler
from pacore.sampling.scripted import ScriptedSampler
from pacore.types import Trajectory
from support.watching import Watching, a_call


async def draw(pools: Pools, width: int, seed: int = 0) -> list[Trajectory]:
    sampler = PoolSampler(pools, ScriptedSampler(lambda call: "generated"), seed=seed)
    return [await sampler.sample(a_call(index=index), Watching()) for index in range(width)]


async def test_drawing_is_without_replacement_and_follows_from_the_seed() -> None:
    pools = {"p": [f"answer {number}" for number in range(512)]}
    drawn = [trajectory.content for trajectory in await draw(pools, 32)]
    assert len(set(drawn)) == 32
    assert drawn == [trajectory.content for trajectory in await draw(pools, 32)]
    assert drawn != [trajectory.content for trajectory in await draw(pools, 32, seed=1)]


async def test_later_rounds_are_generated() -> None:
    sampler = PoolSampler({"p": ["cached"]}, ScriptedSampler(lambda call: "generated"))
    assert (await sampler.sample(a_call(round=2), Watching())).content == "generated"


async def test_cached_responses_keep_reasoning_and_status() -> None:
    pools = {"p": [{"content": "<think>so</think>24", "finish_reason": "stop"}]}
    (trajectory,) = await draw(pools, 1)
    assert (trajectory.content, trajectory.reasoning, trajectory.source) == ("24", "so", "pool")
    (cut,) = await draw({"p": [{"content": "half", "finish_reason": "length"}]}, 1)
    assert cut.status == "truncated"


async def test_a_pool_too_small_or_missing_is_told() -> None:
    with pytest.raises(ProblemError, match="holds 3 responses"):
        await draw({"p": ["a", "b", "c"]}, 4)
    with pytest.raises(ProblemError, match="no pool for the problem 'p'"):
        await draw({}, 1)


async def test_a_pool_file_is_read_a_problem_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "pools.jsonl"
    lines = [
        {"id": name, "responses": [f"{name}{number}" for number in range(8)]} for name in ("o", "p", "q")
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    drawn = await draw(PoolFile(path), 8)
    assert sorted(trajectory.content for trajectory in drawn) == [f"p{number}" for number in range(8)]


def test_a_bad_line_of_a_pool_file_is_told_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "pools.jsonl"
    path.write_text('{"id": "a", "responses": []}\nnonsense\n')
    with pytest.raises(ProblemError, match=r"pools\.jsonl:2"):
        PoolFile(path)
