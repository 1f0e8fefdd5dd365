"""A training run on disk: its settings, a line of metrics an iteration, and a checkpoint that survives.

``training.json``      the settings it was begun with; other ones are refused
``metrics.jsonl``      a line an iteration
``checkpoint.pt``      the last state, written whole or not at all
"""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pacore.errors import ConfigError, TrainingError
from pacore.training.ppo import PPO

SETTINGS = "training.json"
METRICS = "metrics.jsonl"
CHECKPOINT = "checkpoint.pt"

Report = Callable[[dict[str, float]], None]


class TrainingRun:
    """A folder that a run is kept in, and goes on from.

    Raises ConfigError where the folder holds a run with other settings, naming the first that differs.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        plain = json.loads(json.dumps(settings))
        path = folder / SETTINGS
        if not path.exists():
            write_whole(path, json.dumps(plain, indent=2).encode())
            return
        kept = json.loads(path.read_text())
        for key in sorted({*kept, *plain}):
            if kept.get(key) != plain.get(key):
                raise ConfigError(
                    f"{folder} holds a run with {key} = {kept.get(key)!r}, now it is {plain.get(key)!r}; "
                    "choose another folder, or the same settings"
                )

    def train(self, ppo: PPO, iterations: int, *, every: int = 10, report: Report | None = None) -> None:
        """Train to ``iterations`` in all from the last checkpoint on; save every so many, and at the end.

        Raises TrainingError where memory or disk give out, or a loss is no number; the last checkpoint is
        intact then, and the same call goes on from it.
        """
        self._resume(ppo)
        with (self.folder / METRICS).open("a", encoding="utf-8") as metrics:
            while ppo.iteration < iterations:
                line = _iterate(ppo)
                self._append(metrics, line)
                if report is not None:
                    report(line)
                if ppo.iteration % every == 0 or ppo.iteration == iterations:
                    self._save(ppo)

    def history(self) -> list[dict[str, float]]:
        """The metrics of every iteration so far."""
        path = self.folder / METRICS
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def _resume(self, ppo: PPO) -> None:
        path = self.folder / CHECKPOINT
        if path.exists():
            ppo.restore(load_checkpoint(path))
        # What came after the checkpoint is done again, and gives the same lines.
        kept = [line for line in _whole_lines(self.folder / METRICS) if line["iteration"] <= ppo.iteration]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        write_whole(self.folder / METRICS, text.encode())

    def _save(self, ppo: PPO) -> None:
        save_checkpoint(self.folder / CHECKPOINT, ppo.state())

    def _append(self, metrics: Any, line: dict[str, float]) -> None:
        try:
            metrics.write(json.dumps(line) + "\n")
            metrics.flush()
        except OSError as error:
            raise _disk_error(self.folder / METRICS, error) from error


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint whole or not at all. Raises TrainingError where the disk is full."""
    partial = path.with_suffix(".partial")
    try:
        with partial.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except (OSError, RuntimeError) as error:
        partial.unlink(missing_ok=True)
        raise _disk_error(path, error) from error


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint. Raises TrainingError for a file that is none."""
    if not zipfile.is_zipfile(path):
        raise TrainingError(f"{path} is no checkpoint that can be read; remove it to begin anew")
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise TrainingError(
            f"{path} is no checkpoint that can be read ({error}); remove it to begin anew"
        ) from error
    return state


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    partial.replace(path)


def _iterate(ppo: PPO) -> dict[str, float]:
    try:
        return ppo.iterate()
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise _memory_error(ppo, error) from error
    except RuntimeError as error:
        # The processor's allocator has no error of its own.
        if "memory" not in str(error):
            raise
        raise _memory_error(ppo, error) from error


def _memory_error(ppo: PPO, error: BaseException) -> TrainingError:
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    return TrainingError(
        f"iteration {ppo.iteration + 1}: memory gave out ({said}); take fewer prompts a backward pass "
        "(micro), shorter trajectories (limit) or smaller groups; the last checkpoint is intact"
    )


def _disk_error(path: Path, error: BaseException) -> TrainingError:
    return TrainingError(
        f"cannot write {path}: {error}; make room and run the same command again, it goes on from the last "
        "checkpoint"
    )


def _whole_lines(path: Path) -> list[dict[str, float]]:
    if not path.exists():
        return []
    # A line that a kill cut in two is done again.
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
