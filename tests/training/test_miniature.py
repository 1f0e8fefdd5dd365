"""The miniature: the shipped model synthesises, and the pipeline from its base on shows the gain again."""

from __future__ import annotations

import shutil
from importlib.resources import files
from pathlib import Path

import pytest
import torch

from pacore.cli.progress import say
from pacore.errors import ConfigError
from pacore.training.miniature.comparisons import COMPARISONS, read_scores
from pacore.training.miniature.evaluation import Run, evaluate, vote
from pacore.training.miniature.pipeline import make_miniature
from pacore.training.miniature.pools import fill_pools, stage_one
from pacore.training.miniature.pretraining import PretrainingSettings, pretrain
from pacore.training.miniature.report import training_history
from pacore.training.miniature.stages import MiniatureSettings, problems
from pacore.training.miniature.weights import load_model, shipped_model

SMALL = MiniatureSettings(
    pretraining=0, training=240, held_out=200, small=60, prompts=16, group=24, first=16, second=2, side=2
)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def test_pretraining_learns_what_the_teacher_shows() -> None:
    losses: list[float] = []
    pretrain(PretrainingSettings(steps=25, prompts=8), lambda step, loss: losses.append(loss))
    assert losses[-1] < 0.8 * losses[0]


def test_stage_one_keeps_what_is_neither_hopeless_nor_easy() -> None:
    pools = fill_pools(shipped_model("base"), problems(SMALL, "training", 40), 24, seed=1)
    kept = stage_one(pools)
    assert 0 < len(kept) < len(pools)
    assert all(0 < pool.accuracy < 9 / 24 for pool in kept)


@pytest.mark.slow
def test_the_shipped_model_synthesises_better_than_a_vote_and_its_base_does_not() -> None:
    asked = problems(SMALL, "held out of everything", 240)
    first = [pool.thoughts for pool in fill_pools(shipped_model("base"), asked, 16, seed=2)]
    majority = vote(asked, first, 16)
    trained = evaluate(shipped_model("trained"), asked, Run(widths=(16,)), first=first)
    base = evaluate(shipped_model("base"), asked, Run(widths=(16,)), first=first)
    assert trained.accuracy > majority.accuracy + 2 * trained.error
    assert base.accuracy < majority.accuracy


@pytest.mark.slow
def test_the_pipeline_shows_the_gain_from_its_base_on(tmp_path: Path) -> None:
    shipped = files("pacore.training.miniature").joinpath("models", "base.safetensors")
    (tmp_path / "base.safetensors").write_bytes(shipped.read_bytes())
    report = make_miniature(SMALL, tmp_path, say)
    before, after = read_scores(tmp_path, "before"), read_scores(tmp_path, "after")
    assert after.of("[16]").accuracy > before.of("[16]").accuracy + 2 * before.of("[16]").error
    rewards = [line["reward"] - line["message_accuracy"] for line in training_history(SMALL, tmp_path)]
    assert sum(rewards[-5:]) > sum(rewards[:5])
    text = report.read_text()
    assert all(read_scores(tmp_path, comparison.name).scores for comparison in COMPARISONS)
    assert "nan" not in text and "accuracy.svg" in text and (tmp_path / "accuracy.svg").stat().st_size > 5000
    # Everything is there already: the report is written again, and nothing is computed.
    report.unlink()
    lines: list[str] = []
    make_miniature(SMALL, tmp_path, lines.append)
    assert report.is_file() and not lines
    with pytest.raises(ConfigError, match="holds a miniature with seed = 0, now it is 1"):
        make_miniature(MiniatureSettings(seed=1, pretraining=0), tmp_path, say)


def test_weights_of_another_model_are_named(tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    path.write_bytes(b"not weights at all")
    with pytest.raises(ConfigError, match="holds no weights of the miniature"):
        load_model(path)
    shutil.rmtree(tmp_path)
    with pytest.raises(ConfigError, match="cannot read the model"):
        load_model(path)
