"""Corpora built from recipes: through all steps, gone on with, and told in a card."""

from __future__ import annotations

import json
import os
import random
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from pacore.config import Config
from pacore.data.build import Counts, build_corpus
from pacore.data.card import write_card
from pacore.data.files import RecordFile
from pacore.data.recipe import load_recipe
from pacore.data.stepping import Workplace
from pacore.errors import ConfigError, ProblemError
from support.command import pacore, start
from support.endpoint import Answer, MockEndpoint, Reply


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


WORDS = ("apple", "river", "stone", "cloud", "green", "paper", "night", "under", "walks", "slowly", "before")


def a_question(number: int) -> str:
    return f"question {number}: " + " ".join(random.Random(number).choices(WORDS, k=24))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"id": f"p{n}", "question": a_question(n), "ground_truth": str(n)} for n in range(30)]
    rows += [
        {"id": "image", "question": "In the figure, find x.", "ground_truth": "1"},
        {"id": "again", "question": a_question(3), "ground_truth": "3"},
        {"id": "leaked", "question": a_question(99), "ground_truth": "99"},
    ]
    write_rows(tmp_path / "problems.jsonl", rows)
    write_rows(tmp_path / "benchmark.jsonl", [{"id": "b", "question": a_question(99), "ground_truth": "99"}])
    return tmp_path


RECIPE = """
name = "a corpus"
license = "CC0-1.0"
seed = 5

[[source]]
path = "problems.jsonl"
name = "made up"
license = "CC0-1.0"

[[source]]
arithmetic = {number = 4, low = 10, high = 99}

[[step]]
use = "rules"

[[step]]
use = "deduplicate"

[[step]]
use = "decontaminate"
against = ["benchmark.jsonl"]
"""

MODEL_STEPS = """
[[step]]
use = "validity"

[[step]]
use = "pool"
size = 8

[[step]]
use = "stage1"
math_below = 0.9

[[step]]
use = "stage2"
episodes = 6
low = 2
high = 4
"""


def build(folder: Path, text: str = RECIPE, out: str = "out") -> list[Counts]:
    (folder / "recipe.toml").write_text(text)
    recipe = load_recipe(folder / "recipe.toml")

    def workplace(place: Path) -> Workplace:
        return Workplace(config=Config(), folder=place, base=folder, processes=1, report=lambda line: None)

    counts = build_corpus(recipe, folder / out, workplace)
    write_card(recipe, counts, folder / out)
    return counts


def fell(folder: Path, step: str) -> dict[str, str]:
    rows = (folder / "out" / f"{step}.fallen.jsonl").read_text().splitlines()
    return {row["id"]: row["reason"] for row in map(json.loads, rows)}


def test_steps_are_taken_in_order_with_counts_and_reasons(folder: Path) -> None:
    counts = build(folder)
    assert [(found.step, found.taken, found.left) for found in counts] == [
        ("sources", 37, 37),
        ("rules", 37, 36),
        ("deduplicate", 36, 35),
        ("decontaminate", 35, 34),
    ]
    assert fell(folder, "01-rules") == {"image": "image"}
    assert fell(folder, "02-deduplicate") == {"again": "exact_duplicate"}
    assert fell(folder, "03-decontaminate") == {"leaked": "same_but_for_numbers"}
    corpus = list(RecordFile(folder / "out" / "corpus.jsonl"))
    assert len(corpus) == 34
    assert {record.source for record in corpus} == {"made up", "synthetic arithmetic"}
    assert counts[-1].by_source == {"made up": 30, "synthetic arithmetic": 4}


def test_the_card_has_the_funnel_and_the_licences(folder: Path) -> None:
    build(folder)
    card = (folder / "out" / "CARD.md").read_text()
    assert "| source | sources | rules | deduplicate | decontaminate |" in card
    assert "| made up | 33 | 32 | 31 | 30 |" in card
    assert "| all | 37 | 36 | 35 | 34 |" in card
    assert "| made up | CC0-1.0 | 30 |" in card
    assert "same_but_for_numbers 1" in card
    assert "34 problems" in card


def stamps(folder: Path) -> dict[str, int]:
    return {
        path.name: path.stat().st_mtime_ns
        for path in (folder / "out").iterdir()
        if re.match(r"\d\d-.*\.jsonl", path.name)
    }


def test_finished_steps_are_not_taken_again(folder: Path) -> None:
    build(folder)
    before = stamps(folder)
    assert build(folder)[-1].left == 34
    assert stamps(folder) == before


def test_a_changed_step_and_those_after_it_are_taken_anew(folder: Path) -> None:
    build(folder)
    before = stamps(folder)
    counts = build(folder, RECIPE.replace('use = "deduplicate"', 'use = "deduplicate"\nnear = 0.9'))
    after = stamps(folder)
    changed = {name for name in after if after[name] != before.get(name)}
    assert {name[:2] for name in changed} == {"02", "03"}
    assert counts[-1].left == 34


def test_a_changed_source_is_noticed(folder: Path) -> None:
    build(folder)
    with (folder / "problems.jsonl").open("a") as file:
        file.write(json.dumps({"id": "new", "question": "Something quite new?", "ground_truth": 1}) + "\n")
    assert build(folder)[-1].left == 35


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (RECIPE.replace('use = "rules"', 'use = "rule"'), r"step 1.*rules"),
        (RECIPE.replace('path = "problems.jsonl"', ""), "source 1 needs either"),
        (RECIPE + "\n[[step]]\nuse = 'pool'\nsized = 3", "sized"),
        (RECIPE + "\n[[step]]\nuse = 'stage2'\nlow = 9\nhigh = 3", "at most high"),
        (RECIPE.replace("seed = 5", "seed = "), "not TOML"),
        ('name = "x"', "source"),
        (RECIPE + "\n[[step]]\nuse = 'rules'\nwithout = ['links']", "link"),
    ],
)
def test_a_recipe_that_does_not_fit_is_told(folder: Path, text: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        build(folder, text)


def test_the_same_id_in_two_sources_is_told(folder: Path) -> None:
    twice = RECIPE.replace("[[step]]", '[[source]]\npath = "problems.jsonl"\n\n[[step]]', 1)
    with pytest.raises(ConfigError, match="prefix"):
        build(folder, twice)
    prefixed = twice.replace(
        '[[source]]\npath = "problems.jsonl"\n\n', '[[source]]\npath = "problems.jsonl"\nprefix = "b-"\n\n'
    )
    assert build(folder, prefixed)[-1].left == 34


def test_bad_lines_end_the_build_or_are_skipped(folder: Path) -> None:
    with (folder / "problems.jsonl").open("a") as file:
        file.write("no row\n")
    with pytest.raises(ProblemError, match=r"problems\.jsonl:34"):
        build(folder)
    counts = build(folder, RECIPE.replace('name = "made up"', 'name = "made up"\nskip_bad = true'))
    assert (counts[0].skipped, counts[-1].left) == (1, 34)


def behaviour(body: dict[str, Any]) -> Reply:
    """A judge, a reasoner and a synthesiser in one: right by chance of the seed."""
    text = body["messages"][-1]["content"]
    if "response_format" in body:
        return Answer('{"reasoning": "", "usable": "yes"}')
    found = re.search(r"question (\d+)", text)
    number = found[1] if found else "0"
    synthesis = "Reference 1" in text
    right = body["seed"] % (2 if synthesis else 4) == 0
    return Answer(f"\\boxed{{{number if right else 10_000}}}")


def write_settings(folder: Path, url: str) -> None:
    (folder / "pacore.toml").write_text(f'[endpoints.mock]\nbase_url = "{url}"\nmodel = "mock"\n')


def command(folder: Path, url: str, out: str) -> tuple[str, ...]:
    (folder / "recipe.toml").write_text(RECIPE + MODEL_STEPS)
    write_settings(folder, url)
    return ("data", "build", "recipe.toml", "--out", out, "--concurrency", "4", "--quiet")


@pytest.mark.slow
async def test_killed_anywhere_a_build_ends_as_an_undisturbed_one(
    upstream: MockEndpoint, folder: Path
) -> None:
    upstream.behaviour = behaviour
    whole = await pacore(*command(folder, upstream.url, "whole"), cwd=folder)
    assert whole.status == 0, whole.err
    needed = len(upstream.requests)
    for killed_after in (20, 150, 300, 420):
        process = await start(*command(folder, upstream.url, "killed"), cwd=folder)
        await upstream.wait_for_requests(needed + killed_after)
        os.kill(process.pid, signal.SIGKILL)
        await process.communicate()
    killed = await pacore(*command(folder, upstream.url, "killed"), cwd=folder)
    assert killed.status == 0, killed.err
    assert killed.out == whole.out
    # Only what was in flight when it was killed was asked again: a few calls each time.
    assert len(upstream.requests) - needed <= needed + 4 * 6
    corpora = [(folder / out / "corpus.jsonl").read_text() for out in ("whole", "killed")]
    assert corpora[0] == corpora[1]
    records = list(RecordFile(folder / "whole" / "corpus.jsonl"))
    assert records
    assert all(0 < record.extra["synthesis_accuracy"] < 1 and len(record.pool) == 8 for record in records)


@pytest.mark.slow
async def test_each_step_is_a_command_of_its_own(upstream: MockEndpoint, folder: Path) -> None:
    upstream.behaviour = behaviour
    write_settings(folder, upstream.url)

    async def step(*arguments: str) -> int:
        outcome = await pacore("data", *arguments, cwd=folder)
        assert outcome.status == 0, outcome.err
        return sum(1 for _ in RecordFile(folder / arguments[arguments.index("--out") + 1]))

    assert await step("filter", "problems.jsonl", "--out", "1.jsonl", "--fallen", "fallen.jsonl") == 32
    assert json.loads((folder / "fallen.jsonl").read_text())["reason"] == "image"
    assert await step("deduplicate", "1.jsonl", "--out", "2.jsonl") == 31
    assert await step("decontaminate", "2.jsonl", "--against", "benchmark.jsonl", "--out", "3.jsonl") == 30
    assert await step("validity", "3.jsonl", "--out", "4.jsonl") == 30
    outcome = await pacore(
        *(
            "data",
            "pool",
            "4.jsonl",
            "--out",
            "pool",
            "-n",
            "6",
            "--base-url",
            upstream.url,
            "--model",
            "mock",
        ),
        cwd=folder,
    )
    assert outcome.status == 0, outcome.err
    kept = await step("stage1", "4.jsonl", "--pool", "pool", "--math-below", "0.9", "--out", "5.jsonl")
    assert 0 < kept < 30
    assert 0 < await step("stage2", "5.jsonl", "--low", "2", "--high", "4", "--out", "6.jsonl") <= kept
    assert await step("arithmetic", "-n", "7", "--out", "7.jsonl") == 7
    assert await step("checker", "3.jsonl", "--out", "8.jsonl") == 30
    assert await step("tests", "3.jsonl", "--out", "9.jsonl") == 30
    written = await pacore("data", "convert", "6.jsonl", "train.parquet", "--to", "verl", cwd=folder)
    assert written.status == 0, written.err
    assert [r.id for r in RecordFile(folder / "train.parquet")] == [
        r.id for r in RecordFile(folder / "6.jsonl")
    ]


async def test_check_tells_which_truths_do_not_verify(folder: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "good", "question": "q", "ground_truth": "\\frac{1}{2}"},
        {"id": "choice", "question": "q", "ground_truth": {"type": "choice", "answer": "B"}},
        {"id": "empty", "question": "q", "ground_truth": {"type": "math", "answer": ""}},
        {"id": "opaque", "question": "q", "ground_truth": {"entry": 1}},
        {
            "id": "code",
            "question": "q",
            "ground_truth": {"tests": [{"input": "1", "output": "2"}], "reference": "print(input())"},
        },
    ]
    write_rows(folder / "truths.jsonl", rows)
    outcome = await pacore("data", "check", "truths.jsonl", cwd=folder)
    assert outcome.status == 2
    failing = {row["id"] for row in map(json.loads, outcome.out.splitlines())}
    assert failing == {"empty", "code"}
    assert "2 verify against themselves" in outcome.err
