"""The figures of a report, as SVG: accuracy against what it costs, and synthesis over training."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pacore.evals.consistency import PoolSummary
from pacore.evals.statistics import Estimate
from pacore.evals.summary import EvalSummary, MethodSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#2457a6", "#c4511d", "#2c7d4f", "#8a3b8f", "#a07812", "#40798c", "#b0306a", "#5b5b5b")
VOTE_COLOUR = "#7a7a7a"
_SIZE = (7.2, 4.4)
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    # Names are the users' own, dollars and all.
    "text.parse_math": False,
    "svg.fonttype": "none",
    # The same report gives the same file.
    "svg.hashsalt": "pacore",
}


def accuracy_figure(
    summaries: Sequence[EvalSummary], cost: Callable[[MethodSummary], float | None], name: str
) -> str | None:
    """Accuracy against ``cost``, called ``name`` on its axis, of all methods of models on one benchmark.

    Methods that differ only in how much they spend are joined by a line; bars are 95 % intervals. Votes over
    a pool are a band. ``None`` where no method has such a cost.
    """
    with figure() as (axes, finish):
        colours = iter(COLOURS * 9)
        drawn = 0
        for summary in summaries:
            prefix = f"{summary.label}: " if len(summaries) > 1 else ""
            for family, methods in _families(summary.methods).items():
                points = [(cost(method), method) for method in methods]
                known = [(value, method) for value, method in points if value is not None and value > 0]
                known.sort(key=lambda point: point[0])
                if known:
                    drawn += 1
                    _draw_family(axes, prefix + family, known, next(colours))
            if name.startswith("tokens") and summary.pool is not None and summary.pool.curve:
                _draw_votes(axes, f"{prefix}self-consistency, k = 1, 2, 4 …", summary.pool)
        if not drawn:
            return None
        _use_log_scale(axes)
        axes.set_xlabel(name)
        axes.set_ylabel("accuracy, %")
        axes.legend(frameon=False, fontsize=8.5, loc="best")
        return finish()


def training_figure(summaries: Sequence[EvalSummary]) -> str | None:
    """Accuracy, Emergent Correctness Rate and cross-checking over the steps of training, a line a model.

    Of each evaluation the method with most tokens among those that synthesise; ``None`` where no model has
    two steps.
    """
    runs: dict[str, list[tuple[int, MethodSummary]]] = {}
    for summary in summaries:
        synthesising = [method for method in summary.methods if method.cross_checks is not None]
        if summary.step is not None and synthesising:
            most = max(synthesising, key=lambda method: method.tokens)
            runs.setdefault(summary.label, []).append((summary.step, most))
    if not any(len(points) > 1 for points in runs.values()):
        return None
    with figure(columns=3, size=(10.5, 3.4)) as (panels, finish):
        for (label, points), colour in zip(runs.items(), COLOURS * 9, strict=False):
            _draw_training(panels, label, sorted(points, key=lambda point: point[0]), colour)
        names = ("accuracy, %", "Emergent Correctness Rate, %", "references named an output")
        for panel, name in zip(panels, names, strict=True):
            panel.set_ylabel(name)
            panel.set_xlabel("training step")
        if len(runs) > 1:
            panels[0].legend(frameon=False, fontsize=8.5)
        return finish()


def _draw_training(
    panels: Sequence[Axes], label: str, points: Sequence[tuple[int, MethodSummary]], colour: str
) -> None:
    steps = [step for step, _ in points]
    heights, bars = _heights([method.accuracy for _, method in points])
    style: Any = {"color": colour, "marker": "o", "ms": 4}
    panels[0].errorbar(steps, heights, yerr=bars, label=label, **style)
    rates = [(step, method.emergent) for step, method in points if method.emergent is not None]
    values = [100 * rate.value for _, rate in rates]
    errors = [0.0 if math.isnan(rate.se) else 196 * rate.se for _, rate in rates]
    panels[1].errorbar([step for step, _ in rates], values, yerr=errors, **style)
    panels[2].plot(steps, [method.cross_checks or 0.0 for _, method in points], **style)


def _use_log_scale(axes: Axes) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    # 1, 2 and 5 of each power of ten, as in 20k, 500k, 1M.
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _families(methods: Sequence[MethodSummary]) -> dict[str, list[MethodSummary]]:
    found: dict[str, list[MethodSummary]] = {}
    for method in methods:
        found.setdefault(method.family, []).append(method)
    return {name: sorted(members, key=lambda method: method.tokens) for name, members in found.items()}


def _draw_family(axes: Axes, name: str, known: Sequence[tuple[float, MethodSummary]], colour: str) -> None:
    costs = [value for value, _ in known]
    heights, bars = _heights([method.accuracy for _, method in known])
    dashed = known[0][1].votes is not None
    axes.errorbar(
        costs,
        heights,
        yerr=bars,
        color=VOTE_COLOUR if dashed else colour,
        marker="s" if dashed else "o",
        ms=4.5,
        lw=1.4,
        capsize=2.5,
        label=name,
    )
    for (value, method), height in zip(known, heights, strict=True):
        axes.annotate(
            method.name,
            (value, height),
            textcoords="offset points",
            xytext=(5, 4),
            fontsize=8,
            color="#444444",
        )


def _draw_votes(axes: Axes, name: str, pool: PoolSummary) -> None:
    tokens = [point.tokens for point in pool.curve]
    axes.plot(
        tokens,
        [100 * point.majority.mean for point in pool.curve],
        color=VOTE_COLOUR,
        ls="--",
        lw=1.2,
        label=name,
    )
    low = [100 * point.majority.low for point in pool.curve]
    high = [100 * point.majority.high for point in pool.curve]
    axes.fill_between(tokens, low, high, color=VOTE_COLOUR, alpha=0.13, lw=0)


def _heights(estimates: Sequence[Estimate]) -> tuple[list[float], list[list[float]]]:
    """Means in per cent, and how far the interval reaches below and above them."""
    heights = [100 * found.mean for found in estimates]
    below = [100 * (found.mean - found.low) for found in estimates]
    above = [100 * (found.high - found.mean) for found in estimates]
    return heights, [below, above]


class figure:  # noqa: N801 - read as a function: with figure() as (axes, finish)
    """A figure that is closed whatever happens; ``finish`` gives it as SVG to stand inside a page."""

    def __init__(self, *, columns: int = 1, size: tuple[float, float] = _SIZE) -> None:
        self._columns = columns
        self._size = size

    def __enter__(self) -> tuple[Any, Callable[[], str]]:
        import matplotlib as mpl

        mpl.use("svg")
        from matplotlib import pyplot

        self._pyplot = pyplot
        with mpl.rc_context(_STYLE):
            self._drawn, axes = pyplot.subplots(1, self._columns, figsize=self._size, layout="constrained")
        return axes, self._finish

    def __exit__(self, *exception: object) -> None:
        self._pyplot.close(self._drawn)

    def _finish(self) -> str:
        import matplotlib as mpl

        buffer = io.StringIO()
        with mpl.rc_context(_STYLE):
            self._drawn.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        svg = buffer.getvalue()
        # Within a page there is no place for the prologue, and the width is the page's affair.
        svg = svg[svg.index("<svg") :]
        return re.sub(
            r'(<svg[^>]*?) width="[^"]*" height="[^"]*"|(<svg[^>]*?) height="[^"]*"', r"\1\2", svg, count=1
        )
