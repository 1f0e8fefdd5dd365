"""The data card: what a corpus is made of, what fell where and why, and how to make it again."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pacore.data.build import CORPUS, Counts
from pacore.data.files import RecordFile
from pacore.data.recipe import Recipe, describe, step_name
from pacore.data.truths import kind_of
from pacore.traces.directory import write_whole
from pacore.version import __version__


def write_card(recipe: Recipe, counts: Sequence[Counts], out: Path) -> Path:
    """Write ``CARD.md`` beside the corpus; its path."""
    path = out / "CARD.md"
    parts = [
        f"# {recipe.name}",
        recipe.about.strip(),
        _size(out),
        "## Funnel\n\nProblems left after each step, by source.\n\n" + _funnel(counts),
        "## What fell, and why\n\n" + _reasons(counts),
        "## Sources\n\n" + _sources(recipe, out),
        "## Recipe\n\n" + _recipe(recipe),
    ]
    write_whole(path, ("\n\n".join(part for part in parts if part) + "\n").encode())
    return path


def _size(out: Path) -> str:
    kinds: Counter[str] = Counter()
    messages: list[int] = []
    accuracies: list[float] = []
    for record in RecordFile(out / CORPUS):
        kinds[kind_of(record.truth)] += 1
        if record.pool:
            messages.append(len(record.pool))
        if isinstance(accuracy := record.extra.get("message_accuracy"), (int, float)):
            accuracies.append(accuracy)
    told = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
    lines = [f"{kinds.total():,} problems ({told or 'none'})."]
    if messages:
        lines.append(f"{sum(messages):,} messages, {statistics.median(messages):g} a problem at the median.")
    if accuracies:
        cuts = Counter(min(9, int(10 * accuracy)) for accuracy in accuracies)
        spread = ", ".join(f"{cut / 10:.1f}: {cuts[cut]:,}" for cut in sorted(cuts))
        lines.append(f"Message accuracy, mean {statistics.mean(accuracies):.3f}; by tenth: {spread}.")
    return " ".join(lines)


def _funnel(counts: Sequence[Counts]) -> str:
    names = list(counts[0].by_source)
    header = ["source", *(found.step for found in counts)]
    rows = [[name or "–", *(f"{found.by_source.get(name, 0):,}" for found in counts)] for name in names]
    rows.append(["all", *(f"{found.left:,}" for found in counts)])
    return _table(header, rows)


def _reasons(counts: Sequence[Counts]) -> str:
    rows = []
    for found in counts[1:]:
        reasons = ", ".join(f"{name} {count:,}" for name, count in found.reasons.items())
        rows.append([found.step, f"{found.taken:,}", f"{found.left:,}", reasons or "–"])
    if not rows:
        return "No step was taken."
    return _table(["step", "in", "out", "reasons"], rows, numbers=(1, 2))


def _sources(recipe: Recipe, out: Path) -> str:
    found: dict[tuple[str, str], int] = {}
    for record in RecordFile(out / CORPUS):
        key = (record.source, record.license)
        found[key] = found.get(key, 0) + 1
    rows = [
        [source or "–", licence or "not stated", f"{count:,}"] for (source, licence), count in found.items()
    ]
    note = f"\n\nLicence of the whole: {recipe.license}." if recipe.license else ""
    return _table(["source", "licence", "problems"], rows, numbers=(2,)) + note


def _recipe(recipe: Recipe) -> str:
    lines = [f"Built with pacore {__version__}, seed {recipe.seed}.", ""]
    for source in recipe.source:
        lines.append(f"- source: `{_inline(describe(source))}`")
    for config in recipe.step:
        lines.append(f"- {step_name(config)}: `{_inline(describe(config))}`")
    return "\n".join(lines)


def _inline(settings: object) -> str:
    return msgspec.json.encode(settings).decode().replace("`", "'")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] | None = None) -> str:
    right = range(1, len(header)) if numbers is None else numbers
    rule = ["---:" if place in right else "---" for place in range(len(header))]
    lines = [header, rule, *([_cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
