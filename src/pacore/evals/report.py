"""The report: one page and one Markdown file over any number of evaluations, with every figure in them."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import msgspec
from msgspec import Struct

from pacore.errors import MissingExtraError
from pacore.evals.statistics import Difference, Estimate, Rate
from pacore.evals.summary import EvalSummary, Matched, MethodSummary
from pacore.traces.directory import write_whole
from pacore.version import __version__


class Section(Struct, frozen=True, kw_only=True):
    """The evaluations on one benchmark, with their figures as SVG by name."""

    name: str
    title: str
    evaluations: list[EvalSummary]
    figures: dict[str, str]


def write_report(summaries: Sequence[EvalSummary], out: Path, *, title: str = "") -> list[Path]:
    """Write ``report.html``, ``report.md``, ``report.json`` and the figures into ``out``.

    Raises MissingExtraError where figures cannot be drawn.
    """
    sections = _sections(summaries)
    training = _training_figures(summaries)
    values = {
        "title": title or _title(summaries),
        "sections": sections,
        "training": training,
        "overview": _overview(summaries),
        "benchmarks": list(dict.fromkeys(summary.benchmark for summary in summaries)),
        "version": __version__,
        "steps": any(summary.step is not None for summary in summaries),
    }
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for name in ("report.html", "report.md"):
        page = _templates().get_template(f"{name}.jinja").render(**values)
        written.append(_write(out / name, page.encode()))
    encoded = msgspec.json.format(msgspec.json.encode(list(summaries)), indent=1)
    written.append(_write(out / "report.json", encoded))
    figures = {f"{section.name}-{name}": svg for section in sections for name, svg in section.figures.items()}
    for name, svg in {**figures, **{f"{name}-training": svg for name, svg in training.items()}}.items():
        written.append(_write(out / f"{name}.svg", svg.encode()))
    return written


def _write(path: Path, content: bytes) -> Path:
    write_whole(path, content)
    return path


def _title(summaries: Sequence[EvalSummary]) -> str:
    labels = list(dict.fromkeys(summary.label for summary in summaries))
    return f"{', '.join(labels[:3])}{' …' if len(labels) > 3 else ''} at equal compute"


def _sections(summaries: Sequence[EvalSummary]) -> list[Section]:
    try:
        from pacore.evals.figures import accuracy_figure
    except ImportError as error:
        raise MissingExtraError("drawing a report's figures", "eval") from error
    sections = []
    for name in dict.fromkeys(summary.benchmark for summary in summaries):
        found = [summary for summary in summaries if summary.benchmark == name]
        drawn = {
            "tokens": accuracy_figure(found, lambda method: method.tokens, "tokens a problem (TTC)"),
            "seconds": accuracy_figure(
                found, lambda method: method.seconds[0], "seconds along the slowest trajectories, median"
            ),
            "dollars": accuracy_figure(found, lambda method: method.usd, "dollars a problem"),
        }
        figures = {kind: svg for kind, svg in drawn.items() if svg is not None}
        sections.append(Section(name=name, title=found[0].title, evaluations=found, figures=figures))
    return sections


def _training_figures(summaries: Sequence[EvalSummary]) -> dict[str, str]:
    from pacore.evals.figures import training_figure

    found = {}
    for name in dict.fromkeys(summary.benchmark for summary in summaries):
        svg = training_figure([summary for summary in summaries if summary.benchmark == name])
        if svg is not None:
            found[name] = svg
    return found


def _overview(summaries: Sequence[EvalSummary]) -> list[dict[str, Any]]:
    """A row a model and method, a cell a benchmark: the shape of the paper's tables."""
    rows: dict[tuple[str, int | None, str], dict[str, MethodSummary]] = {}
    seen: Counter[tuple[str, int | None, str]] = Counter()
    for summary in summaries:
        seen[summary.label, summary.step, summary.benchmark] += 1
        times = seen[summary.label, summary.step, summary.benchmark]
        # The same model on the same benchmark again (another seed, say) has rows of its own.
        label = summary.label if times == 1 else f"{summary.label} ({times})"
        for method in summary.methods:
            row = rows.setdefault((label, summary.step, method.name), {})
            row[summary.benchmark] = method
    return [
        {"label": label, "step": step, "method": method, "cells": cells}
        for (label, step, method), cells in rows.items()
    ]


def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pacore.evals"),
        autoescape=lambda name: name is not None and name.startswith("report.html"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=percent,
        accuracy=accuracy,
        bounds=bounds,
        thousands=thousands,
        signed=signed,
        rate=rate_text,
        seconds=seconds,
        money=money,
        judgement=judgement,
        versus=versus,
        cell=cell,
        runs=runs,
        plain=plain,
        json=lambda value: msgspec.json.format(msgspec.json.encode(value), indent=1).decode(),
    )
    return environment


def percent(value: float | None, digits: int = 1) -> str:
    """A share as per cent; a dash where there is none."""
    return "–" if value is None or math.isnan(value) else f"{100 * value:.{digits}f}"


def accuracy(found: Estimate) -> str:
    """A mean with its standard error, in per cent."""
    return percent(found.mean) if math.isnan(found.se) else f"{percent(found.mean)} ± {percent(found.se)}"


def bounds(found: Estimate | Difference) -> str:
    """A 95 % interval in per cent."""
    return f"{percent(found.low)} to {percent(found.high)}"


def runs(found: Estimate, problems: int) -> str:
    """Runs a problem; and of how many problems, where some have none yet."""
    told = f"{found.runs:.0f}" if found.runs == int(found.runs) else f"{found.runs:.1f}"
    return told if found.problems == problems else f"{told} of {found.problems}/{problems} problems"


def thousands(value: float) -> str:
    """Tokens in thousands, with as many digits as say something."""
    return f"{value / 1000:.1f}" if value < 100_000 else f"{value / 1000:,.0f}"


def signed(found: Difference | None) -> str:
    """A difference in points with its interval."""
    if found is None or math.isnan(found.mean):
        return "–"
    if math.isnan(found.low):
        return f"{100 * found.mean:+.1f}"
    return f"{100 * found.mean:+.1f} ({100 * found.low:+.1f} to {100 * found.high:+.1f})"


def rate_text(found: Rate | None) -> str:
    """A rate with its error, and of how many events."""
    if found is None:
        return "–"
    error = "" if math.isnan(found.se) else f" ± {percent(found.se)}"
    return f"{percent(found.value)}{error} (of {found.of:,})"


def seconds(found: tuple[float, float]) -> str:
    """Median and 95th percentile."""
    if math.isnan(found[0]):
        return "–"
    return f"{found[0]:,.1f} / {found[1]:,.1f}"


def money(value: float | None) -> str:
    """Dollars a problem."""
    return "–" if value is None else f"{value:.4f}"


def judgement(found: Difference) -> str:
    """What an interval allows to say."""
    if math.isnan(found.low):
        return "too few problems"
    if found.is_gain:
        return "gain"
    return "loss" if found.is_loss else "no difference shown"


def versus(found: Matched) -> str:
    """The votes that a method was compared with."""
    short = "; the pool holds no more" if found.short else ""
    return f"@{found.votes} ({thousands(found.tokens)}k tokens{short})"


def cell(found: MethodSummary | None) -> str:
    """Accuracy and TTC in thousands, as the paper's tables have them."""
    return "–" if found is None else f"{percent(found.accuracy.mean)} ({thousands(found.tokens)})"


def plain(text: str) -> str:
    """Text for a cell of a Markdown table."""
    return html.escape(text, quote=False).replace("|", "\\|").replace("\n", " ")
