"""``pacore train``: a model and records in, a trained model out; clear words where something is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command import pacore
from support.tiny_model import make_tiny_model

LINE = {
    "conversation": [{"role": "user", "content": "Add 7 and 1."}],
    "responses": ["8", "9", "8", "1"],
    "ground_truth": "8",
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({**LINE, "id": str(place)}) + "\n" for place in range(4)))
    return path


SMALL = ("--iterations", "2", "--prompts", "2", "--group", "2", "--limit", "4", "--low", "2", "--high", "3")


async def test_a_model_is_trained_and_can_be_trained_further(data: Path, tmp_path: Path) -> None:
    model, out = make_tiny_model(tmp_path / "model"), tmp_path / "run"
    arguments = ("train", "ppo", str(data), "--model", str(model), "--out", str(out))
    outcome = await pacore(*arguments, *SMALL)
    assert outcome.status == 0, outcome.err
    assert "1: reward" in outcome.err and "tokens/s" in outcome.err
    assert (out / "model" / "model.safetensors").is_file()
    further = await pacore(*arguments, *SMALL, "--iterations", "3")
    assert further.status == 0, further.err
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in lines] == [1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--truncation", "maybe"), "maybe"),
        (("--low", "5", "--high", "2"), "give 0 <= low <= high"),
        (("--policy-rate", "-1"), "policy_rate is -1"),
        (("--longest-prompt", "3"), "more than 3"),
    ],
)
async def test_settings_that_cannot_be_used_are_named(
    data: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    model = make_tiny_model(tmp_path / "model")
    run = ("train", "ppo", str(data), "--model", str(model), "--out", str(tmp_path / "run"))
    outcome = await pacore(*run, *SMALL, *arguments)
    assert outcome.status == 1
    assert said in outcome.err
    assert "Traceback" not in outcome.err


async def test_records_without_pools_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bare.jsonl"
    path.write_text(json.dumps({"question": "Add 7 and 1.", "ground_truth": "8"}) + "\n")
    model = make_tiny_model(tmp_path / "model")
    outcome = await pacore("train", "ppo", str(path), "--model", str(model), "--out", str(tmp_path / "run"))
    assert outcome.status == 1
    assert "no record has a pool" in outcome.err


async def test_a_model_that_is_not_there_is_named(data: Path, tmp_path: Path) -> None:
    outcome = await pacore(
        "train", "ppo", str(data), "--model", str(tmp_path / "no"), "--out", str(tmp_path / "run")
    )
    assert outcome.status == 1
    assert "cannot load" in outcome.err
