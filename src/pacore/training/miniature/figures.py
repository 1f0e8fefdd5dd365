"""The paper's figures in small, of a miniature's scores and metrics, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pacore.evals.figures import COLOURS, VOTE_COLOUR, figure
from pacore.training.miniature.comparisons import Scores
from pacore.training.miniature.evaluation import Score

SMOOTHED = 10
"""Iterations that a point of a training curve is the mean of."""


def accuracy_figure(before: Scores, after: Scores) -> str:
    """Accuracy against tokens a problem, before and after training, with the base's majority votes."""
    with figure() as (axes, finish):
        for scores, name, colour in ((before, "before training", COLOURS[1]), (after, "after", COLOURS[0])):
            chosen = [scores.of(schedule) for schedule in ("[]", "[4]", "[16]", "[32,4]")]
            _draw(axes, chosen, name, colour)
            _draw(axes, [scores.of("[4,4,4,4]")], f"[4,4,4,4] {name}", colour, marker="D")
        votes = [score for score in before.scores if score.schedule.startswith("majority")]
        _draw(axes, votes, "majority vote, before", VOTE_COLOUR, ls="--")
        _label(axes)
        axes.set_xscale("log")
        return finish()


def depth_figure(after: Scores, depth: Scores) -> str:
    """Parallel against sequential thinking at equal trajectories."""
    with figure() as (axes, finish):
        _draw(axes, [after.of(name) for name in ("[]", "[4]", "[16]")], "parallel", COLOURS[0])
        _draw(axes, [after.of("[]"), *depth.scores], "sequential", COLOURS[2])
        _label(axes)
        return finish()


def compaction_figure(after: Scores, whole: Scores) -> str:
    """Conclusions against whole trajectories as references."""
    with figure() as (axes, finish):
        _draw(axes, [after.of(name) for name in ("[]", "[4]", "[16]")], "conclusions", COLOURS[0])
        _draw(axes, [after.of("[]"), *whole.scores], "whole trajectories", COLOURS[3])
        _label(axes)
        return finish()


def training_figure(history: Sequence[dict[str, float]]) -> str:
    """Reward beside the messages, the Emergent Correctness Rate, and the use of references, over training."""
    with figure(columns=3, size=(10.5, 3.4)) as (panels, finish):
        for name, shown, colour in (
            ("reward", "reward", COLOURS[0]),
            ("majority", "majority of the messages", VOTE_COLOUR),
            ("message_accuracy", "message accuracy", COLOURS[1]),
        ):
            _curve(panels[0], history, name, colour, shown)
        _curve(panels[1], history, "emergent", COLOURS[0])
        _curve(panels[2], history, "mentions", COLOURS[0])
        names = ("training episodes", "Emergent Correctness Rate", "references used a trajectory")
        for panel, name in zip(panels, names, strict=True):
            panel.set_ylabel(name)
            panel.set_xlabel("iteration")
            panel.set_ylim(bottom=0)
        panels[0].legend(frameon=False, fontsize=8.5)
        return finish()


def _draw(
    axes: Any, scores: Sequence[Score], name: str, colour: str, *, marker: str = "o", ls: str = "-"
) -> None:
    axes.errorbar(
        [score.tokens for score in scores],
        [100 * score.accuracy for score in scores],
        yerr=[196 * score.error for score in scores],
        label=name,
        color=colour,
        marker=marker,
        ls=ls,
        ms=4.5,
        lw=1.4,
        capsize=2.5,
    )


def _label(axes: Any) -> None:
    axes.set_xlabel("tokens a problem")
    axes.set_ylabel("accuracy, %")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8.5, loc="best")


def _curve(panel: Any, history: Sequence[dict[str, float]], name: str, colour: str, shown: str = "") -> None:
    points = [(line["iteration"], line[name]) for line in history if name in line]
    groups = [points[begin : begin + SMOOTHED] for begin in range(0, len(points), SMOOTHED)]
    steps = [sum(step for step, _ in group) / len(group) for group in groups]
    values = [sum(value for _, value in group) / len(group) for group in groups]
    panel.plot(steps, values, color=colour, marker="o", ms=3, label=shown)
