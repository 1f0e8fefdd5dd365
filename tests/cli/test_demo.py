"""``pacore demo``: the shipped miniature on fresh problems, through the same loop and trace."""

from __future__ import annotations

import re
from pathlib import Path

from support.command import pacore


async def test_the_demo_solves_fresh_problems_and_leaves_their_traces(tmp_path: Path) -> None:
    outcome = await pacore("demo", "--problems", "3", "--seed", "5", "--trace", str(tmp_path), "--quiet")
    assert outcome.status == 0, outcome.err
    *lines, last = outcome.out.splitlines()
    assert len(lines) == 3
    assert all(
        re.match(r"locks-\d: .* \((right|wrong)\); \d+ of 16 first trajectories right", line)
        for line in lines
    )
    assert re.match(r"single trajectories: \d+ % right; .*: \d of 3 problems right, \d+ tokens", last)
    shown = await pacore("view", str(tmp_path / "locks-1.jsonl"))
    assert shown.status == 0 and "17 calls" in shown.out
    again = await pacore(
        "demo", "--problems", "3", "--seed", "5", "--trace", str(tmp_path / "again"), "--quiet"
    )
    assert again.out == outcome.out


async def test_the_model_before_training_can_be_shown_beside_it(tmp_path: Path) -> None:
    arguments = ("demo", "--problems", "12", "--seed", "7", "--locks", "2", "--quiet")
    after = await pacore(*arguments, "--trace", str(tmp_path / "after"))
    before = await pacore(*arguments, "--before", "--trace", str(tmp_path / "before"))
    right = [int(re.findall(r"(\d+) of 12 problems right", found.out)[0]) for found in (before, after)]
    assert right[0] < right[1]


async def test_a_wrong_number_of_locks_is_an_error() -> None:
    outcome = await pacore("demo", "--locks", "9")
    assert outcome.status == 1
    assert "less than or equal to 3" in outcome.err
