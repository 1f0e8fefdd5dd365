"""The miniature: the shipped model synthesises, and the pipeline from its base on shows the gain again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from pacore.errors import ConfigError
from pacore.training.miniature.evaluation import Run, evaluate, vote
from pacore.training.miniature.pools import fill_pools, stage_one
from pacore.training.miniature.pretraining import PretrainingSettings, pretrain
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


def test_weights_of_another_model_are_named(tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    path.write_bytes(b"not weights at all")
    with pytest.raises(ConfigError, match="holds no weights of the miniature"):
        load_model(path)
    shutil.rmtree(tmp_path)
    with pytest.raises(ConfigError, match="cannot read the model"):
        load_model(path)
