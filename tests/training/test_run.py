"""A run on disk: it goes on where it was killed, and says what went wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from pacore.errors import ConfigError, TrainingError
from pacore.training.ppo import PPO
from pacore.training.run import TrainingRun
from support.bandit import Bandit, a_trainer

CHILD = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from support.bandit import a_trainer
from pacore.training.run import TrainingRun

def report(line):
    if line["iteration"] == {last}:
        os.kill(os.getpid(), signal.SIGKILL)

TrainingRun(Path({folder!r}), {{"seed": 1}}).train(a_trainer(), 9, every=2, report=report)
"""
SAME = ("iteration", "reward", "policy_loss", "value_loss", "entropy", "policy_norm")


def metrics(folder: Path) -> list[tuple[float, ...]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [tuple(line[name] for name in SAME) for line in lines]


def test_a_run_killed_at_any_moment_goes_on_to_the_same_end(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    TrainingRun(whole, {"seed": 1}).train(a_trainer(), 9, every=2)
    for last in (1, 4, 7):
        code = CHILD.format(tests=str(Path(__file__).parent.parent), folder=str(killed), last=last)
        found = subprocess.run(
            [sys.executable, "-c", code], check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        assert found.returncode == -signal.SIGKILL
    torch.set_num_threads(1)
    TrainingRun(killed, {"seed": 1}).train(a_trainer(), 9, every=2)
    for one, two in zip(metrics(whole), metrics(killed), strict=True):
        assert two == pytest.approx(one, rel=1e-3, abs=1e-5)


def test_a_line_cut_in_two_is_done_again(tmp_path: Path) -> None:
    run = TrainingRun(tmp_path, {})
    run.train(a_trainer(), 3, every=2)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 4, "rew')
    run.train(a_trainer(), 5, every=2)
    assert [line["iteration"] for line in run.history()] == [1, 2, 3, 4, 5]


def test_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    TrainingRun(tmp_path, {"group": 8, "seed": 1})
    with pytest.raises(ConfigError, match="holds a run with group = 8, now it is 4"):
        TrainingRun(tmp_path, {"group": 4, "seed": 1})


def test_a_checkpoint_that_was_damaged_is_named(tmp_path: Path) -> None:
    run = TrainingRun(tmp_path, {})
    run.train(a_trainer(), 1)
    (tmp_path / "checkpoint.pt").write_bytes(b"half of it")
    with pytest.raises(TrainingError, match=r"checkpoint.pt is no checkpoint that can be read"):
        run.train(a_trainer(), 2)


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = TrainingRun(tmp_path, {})
    run.train(a_trainer(), 2)
    kept = (tmp_path / "checkpoint.pt").read_bytes()

    def full(state: Any, file: Any) -> None:
        file.write(b"some of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(TrainingError, match=r"cannot write .*checkpoint.pt.*No space left on device"):
        run.train(a_trainer(), 3)
    assert (tmp_path / "checkpoint.pt").read_bytes() == kept
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
        MemoryError(),
    ],
)
def test_memory_that_gives_out_is_said_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(ppo: PPO, *rest: Any) -> Any:
        raise error

    monkeypatch.setattr(PPO, "_sample", fail)
    with pytest.raises(TrainingError, match=r"iteration 1: memory gave out .* fewer prompts a backward pass"):
        TrainingRun(tmp_path, {}).train(a_trainer(), 1)


def test_a_grader_that_dies_ends_the_run_with_its_own_words(tmp_path: Path) -> None:
    class Dying(Bandit):
        def grade(self, *rest: Any) -> Any:
            raise TrainingError("the verifier's process is gone")

    run = TrainingRun(tmp_path, {})
    run.train(a_trainer(), 1)
    with pytest.raises(TrainingError, match="the verifier's process is gone"):
        run.train(a_trainer(Dying()), 2)
    assert [line["iteration"] for line in run.history()] == [1]
    run.train(a_trainer(), 2)
    assert [line["iteration"] for line in run.history()] == [1, 2]
