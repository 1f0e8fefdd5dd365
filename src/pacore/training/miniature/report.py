"""The miniature's report: Markdown with tables, and the paper's figures redrawn in small as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from pacore.training.miniature import figures
from pacore.training.miniature.comparisons import Scores, read_scores
from pacore.training.miniature.evaluation import Score
from pacore.training.miniature.stages import MiniatureSettings, main_runs
from pacore.training.run import TrainingRun, write_whole

REPORT = "report.md"
CONFIDENCE = 1.96


class Origin(Struct, frozen=True, kw_only=True):
    """Where and how the figures came about. ``times`` are seconds a stage."""

    times: dict[str, float]
    cores: int
    processor: str
    versions: dict[str, str]


def write_report(settings: MiniatureSettings, folder: Path, origin: Origin) -> Path:
    """Write ``report.md`` and its figures from what the stages left; returns its path."""
    before, after = read_scores(folder, "before"), read_scores(folder, "after")
    history = training_history(settings, folder)
    drawn = {
        "accuracy.svg": figures.accuracy_figure(before, after),
        "depth.svg": figures.depth_figure(after, read_scores(folder, "depth")),
        "compaction.svg": figures.compaction_figure(after, read_scores(folder, "without compaction")),
        "training.svg": figures.training_figure(history),
    }
    for name, svg in drawn.items():
        write_whole(folder / name, svg.encode())
    sections = [
        _opening(settings, origin),
        _claims(before, after),
        _pipeline_table(before, after),
        "![Accuracy against tokens, before and after training](accuracy.svg)",
        _protocol_table(folder),
        _depth(folder, after),
        _training(history),
        _ablation_table(folder),
        _repeat(settings),
    ]
    path = folder / REPORT
    write_whole(path, ("\n\n".join(sections) + "\n").encode())
    return path


def training_history(settings: MiniatureSettings, folder: Path) -> list[dict[str, float]]:
    """The metrics of both stages, iterations counted through."""
    lines: list[dict[str, float]] = []
    for run in main_runs(settings):
        begun = len(lines)
        kept = TrainingRun(folder / run.name, msgspec.to_builtins(settings)).history()
        lines += [
            {**line, "iteration": begun + line["iteration"], "stage": int(run.second_stage) + 1}
            for line in kept
        ]
    return lines


def _opening(settings: MiniatureSettings, origin: Origin) -> str:
    total = sum(origin.times.values()) / 60
    stages = ", ".join(f"{name} {seconds / 60:.1f}" for name, seconds in origin.times.items())
    versions = ", ".join(f"{name} {version}" for name, version in origin.versions.items())
    return (
        "# Synthesis learned from nothing: the miniature\n\n"
        f"Digit locks; {settings.held_out} held-out problems ({settings.small} where a table says so); seed "
        f"{settings.seed}. Made in {total:.1f} minutes on {origin.cores} cores of {origin.processor} "
        f"({stages} minutes), with {versions}. Errors are standard errors over problems, intervals 95 %."
    )


def _claims(before: Scores, after: Scores) -> str:
    """What the run shows, in numbers, whichever way they came out."""
    synthesis = after.of("[16]")
    vote, own = before.of("majority of 16"), after.of("majority of 16")
    ladder = [after.of(name) for name in ("[]", "[4]", "[16]", "[32,4]")]
    flat = [before.of(name) for name in ("[]", "[4]", "[16]", "[32,4]")]
    emergent = [_emergent(scores.of("[16]")) for scores in (before, after)]
    return "\n".join(
        [
            "## What it shows\n",
            f"- **Synthesis against the vote**: `[16]` after training is right on {_percent(synthesis)}, the "
            f"majority of 16 of the base's trajectories on {_percent(vote)}, of the trained model's own on "
            f"{_percent(own)}. The paired gain over the base's majority is {_gain(synthesis, vote)}.",
            f"- **Width**: [1] → [4] → [16] → [32, 4] is "
            f"{' → '.join(f'{score.accuracy:.3f}' for score in ladder)} after and "
            f"{' → '.join(f'{score.accuracy:.3f}' for score in flat)} before, the same model in every round.",
            f"- **Right where every message is wrong** (`[16]`): {emergent[0]} before, {emergent[1]} after.",
        ]
    )


def _pipeline_table(before: Scores, after: Scores) -> str:
    rows = [
        [
            score.schedule if score.schedule != "[]" else "one call",
            f"{score.tokens:.0f}",
            f"{score.accuracy:.3f} ± {score.error:.3f}",
            f"{other.tokens:.0f}",
            f"{other.accuracy:.3f} ± {other.error:.3f}",
        ]
        for score, other in zip(before.scores, after.scores, strict=True)
    ]
    heads = ["schedule", "tokens before", "accuracy before", "tokens after", "accuracy after"]
    return "## Before and after, the model in every round\n\n" + _table(heads, rows)


def _protocol_table(folder: Path) -> str:
    names = (
        "after",
        "after, first round of the base",
        "without replay",
        "without replay, first round of the base",
        "without references",
    )
    rows = []
    for name in names:
        scores = read_scores(folder, name)
        cells = [_cell(scores, schedule) for schedule in ("[]", "[4]", "[16]", "[32,4]")]
        rows.append([name, *cells, str(scores.scores[-1].problems)])
    return (
        "## Who thinks in the first round, and the controls\n\n"
        "`without references` had the same iterations of PPO on bare prompts: what plain reinforcement "
        "learning explains. `without replay` is PPO alone, as in the paper: its own first rounds agree more "
        "with each other.\n\n" + _table(["", "one call", "[4]", "[16]", "[32,4]", "problems"], rows)
    )


def _depth(folder: Path, after: Scores) -> str:
    depth, whole = read_scores(folder, "depth"), read_scores(folder, "without compaction")
    rows = [
        [
            f"{width} + 1",
            _cell(after, f"[{width}]"),
            _cell(depth, f"[1×{width}]" if width > 4 else "[1,1,1,1]"),
            _cell(whole, f"[{width}] without compaction"),
        ]
        for width in (4, 16)
    ]
    return (
        "## Parallel against sequential, with and without compaction\n\n"
        + _table(
            ["trajectories", "parallel", "sequential", "parallel, whole trajectories as references"], rows
        )
        + "\n\n![Parallel against sequential](depth.svg)\n\n![With and without compaction](compaction.svg)"
    )


def _training(history: Sequence[dict[str, float]]) -> str:
    tenth = max(1, len(history) // 10)
    rows = []
    for name in ("reward", "message_accuracy", "majority", "emergent", "mentions", "entropy", "length"):
        first = [line[name] for line in history[:tenth] if name in line]
        last = [line[name] for line in history[-tenth:] if name in line]
        if first and last:
            rows.append([name, f"{sum(first) / len(first):.3f}", f"{sum(last) / len(last):.3f}"])
    return (
        f"## Over training\n\nMeans of the first and the last {tenth} iterations.\n\n"
        + _table(["", "first", "last"], rows)
        + "\n\n![Over training](training.svg)"
    )


def _ablation_table(folder: Path) -> str:
    rows = []
    for name in ("|M| drawn", "|M| fixed"):
        scores = read_scores(folder, name)
        rows.append([name, *(_cell(scores, schedule) for schedule in ("[4]", "[16]", "[32,4]"))])
    number = read_scores(folder, "|M| fixed").scores[0].problems
    return (
        f"## |M| drawn against fixed\n\nAfter stage 1, first rounds of the base, {number} problems.\n\n"
        + _table(["", "[4]", "[16]", "[32,4]"], rows)
    )


def _repeat(settings: MiniatureSettings) -> str:
    return (
        "## Repeat it\n\n```sh\npacore train miniature --out miniature --seed "
        f"{settings.seed}\n```\n\nSettings: `{msgspec.json.encode(settings).decode()}`"
    )


def _cell(scores: Scores, schedule: str) -> str:
    try:
        score = scores.of(schedule)
    except KeyError:
        return ""
    return f"{score.accuracy:.3f} ± {score.error:.3f}"


def _percent(score: Score) -> str:
    low, high = score.accuracy - CONFIDENCE * score.error, score.accuracy + CONFIDENCE * score.error
    return f"{100 * score.accuracy:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def _emergent(score: Score) -> str:
    if score.emergent is None:
        return "no such problem"
    error = math.sqrt(score.emergent * (1 - score.emergent) / max(1, score.all_wrong - 1))
    return f"{100 * score.emergent:.1f} ± {100 * error:.1f} % of {score.all_wrong}"


def _gain(score: Score, other: Score) -> str:
    """The paired difference of two scores over the same problems, with its interval."""
    pairs = [int(one) - int(two) for one, two in zip(score.right, other.right, strict=True)]
    mean = sum(pairs) / len(pairs)
    spread = math.sqrt(sum((pair - mean) ** 2 for pair in pairs) / max(1, len(pairs) - 1) / len(pairs))
    return (
        f"{100 * mean:+.1f} points [{100 * (mean - CONFIDENCE * spread):+.1f}, "
        f"{100 * (mean + CONFIDENCE * spread):+.1f}]"
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
