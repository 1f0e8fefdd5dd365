"""The whole road with a real model: pool, verification, filter, evaluation, report in a browser."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pacore.data.files import RecordFile
from pacore.evals.directory import read_outcomes
from support.browser import chromium, dom_of, screenshot_of
from support.command import pacore

EXAMPLES = Path(__file__).parent.parent / "examples"

pytestmark = pytest.mark.slow


async def run(folder: Path, *arguments: str) -> str:
    outcome = await pacore(*arguments, cwd=folder, seconds=600)
    assert outcome.status == 0, outcome.err
    return outcome.out


@pytest.mark.skipif(chromium() is None, reason="needs Chromium")
async def test_from_problems_to_a_report_with_the_embedded_model(tmp_path: Path) -> None:
    for name in ("stories.jsonl", "stories.toml"):
        shutil.copy(EXAMPLES / name, tmp_path)
    model = ("--quiet", "--concurrency", "8")
    told = await run(
        tmp_path,
        "data",
        "pool",
        "stories.jsonl",
        "--benchmark",
        "stories.toml",
        "--out",
        "pool",
        "-n",
        "8",
        *model,
    )
    rows = [json.loads(line) for line in told.splitlines()]
    assert len(rows) == 20
    assert all(row["trajectories"] == 8 for row in rows)

    await run(tmp_path, "data", "stage1", "stories.jsonl", "--pool", "pool", "--out", "stage1.jsonl")
    kept = {record.id: record for record in RecordFile(tmp_path / "stage1.jsonl")}
    assert set(kept) == {row["id"] for row in rows if 0 < row["accuracy"] < 9 / 24}
    assert all(any(response.reward == 1 for response in record.pool) for record in kept.values())

    methods = "single,[4],self-consistency@5"
    evaluate = ("eval", "run", "stories.toml", "--data", "stories.jsonl", "--pool", "pool", "--out", "eval")
    await run(tmp_path, *evaluate, "--methods", methods, *model)
    outcomes = list(read_outcomes(tmp_path / "eval"))
    assert len(outcomes) == 20 * 2
    by_id = {row["id"]: row["accuracy"] for row in rows}
    single = [outcome for outcome in outcomes if outcome.method == "single"]
    assert all(outcome.reward == 0 for outcome in single if by_id[outcome.problem] == 0)

    await run(tmp_path, "eval", "report", "eval", "--out", "report")
    page = tmp_path / "report" / "report.html"
    document = dom_of(page)
    for words in (
        "single",
        "[4]",
        "self-consistency@5",
        "At equal tokens",
        "The pool: 8 trajectories",
        "<svg",
    ):
        assert words in document
    assert len(screenshot_of(page, tmp_path / "report.png")) > 30_000
