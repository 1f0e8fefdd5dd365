"""Progress of one run in the terminal: a row a round, a mark a trajectory; plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from pacore.events import (
    Event,
    RoundFinished,
    RoundStarted,
    TrajectoryFinished,
    TrajectoryProgress,
    TrajectoryRetrying,
    TrajectoryStarted,
    Warned,
)
from pacore.types import Result, RunWarning, Trajectory

WAITING, THINKING, DONE, FAILED, DROPPED = "·", "◐", "●", "✗", "○"
_STYLES = {WAITING: "dim", THINKING: "yellow", DONE: "green", FAILED: "red", DROPPED: "dim"}
_REFRESHES_PER_SECOND = 8


@dataclass
class RoundRow:
    """A round as the display shows it."""

    number: int
    purpose: str
    marks: list[str]
    tokens: dict[int, int] = field(default_factory=dict)
    agreement: float | None = None
    note: str = ""


class RunDisplay:
    """Reads the events of one run and shows them on stderr, as its kind allows."""

    def __init__(self, *, quiet: bool = False, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._quiet = quiet
        self._rows: dict[int, RoundRow] = {}
        self._live: Live | None = None
        self._started = time.monotonic()
        self._ended = False
        self._held: str | None = None

    def __enter__(self) -> RunDisplay:
        self._started = time.monotonic()
        if self._console.is_terminal and not self._quiet:
            self._live = Live(
                get_renderable=self.render,
                console=self._console,
                refresh_per_second=_REFRESHES_PER_SECOND,
                transient=False,
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        if self._live is not None:
            self._live.stop()
            self._live = None

    def take(self, event: Event) -> None:
        """Take the next event of the run."""
        if not isinstance(event, Warned):
            self._say_held()
        if isinstance(event, RoundStarted):
            self._rows[event.round] = RoundRow(event.round, event.purpose, [WAITING] * event.width)
            self._say(f"round {event.round}: {_counted(event.width, 'trajectory', 'trajectories')}")
        elif isinstance(event, TrajectoryStarted):
            self._mark(event.round, event.index, THINKING)
        elif isinstance(event, TrajectoryProgress):
            self._rows[event.round].tokens[event.index] = event.tokens
        elif isinstance(event, TrajectoryRetrying):
            self._mark(event.round, event.index, WAITING)
            self._say(
                f"{event.round}.{event.index} {event.reason}; again in {event.wait_s:.1f} s",
            )
        elif isinstance(event, TrajectoryFinished):
            self._finish(event.trajectory)
        elif isinstance(event, RoundFinished):
            row = self._rows[event.round]
            row.agreement = event.agreement
            row.note = f"{event.skipped} not needed" if event.skipped else ""
            self._say(f"round {event.round}: {len(event.messages)} of {len(row.marks)} left a message")
        elif isinstance(event, Warned):
            self._take_warning(event.warning)

    def close_with(self, result: Result, trace: Path | None) -> None:
        """The closing line: what the answer cost, and where its trace is."""
        if result.status == "failed":
            self._console.print(Text(f"failed: {result.warnings[-1].text}", style="red"), soft_wrap=True)
        elif result.status == "degraded":
            reasons = "; ".join(warning.text for warning in result.warnings)
            self._console.print(Text(f"degraded: {reasons}", style="yellow"), soft_wrap=True)
        if not self._quiet:
            self._console.print(Text(closing_line(result, trace), style="dim"), soft_wrap=True)

    def _take_warning(self, warning: RunWarning) -> None:
        if warning.code == "failed":
            # The closing lines tell why, in the same words as the warning before it.
            self._held = None
        elif warning.code == "lost_references":
            self._held = warning.text
        else:
            self._say(f"warning: {warning.text}", style="yellow")

    def _say_held(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._say(f"warning: {held}", style="yellow")

    def render(self) -> RenderableType:
        """The rows as they stand."""
        rows = [_rendered(row) for row in self._rows.values()]
        if self._ended:
            # The closing line gives the totals, as the endpoint counted them.
            return Group(*rows)
        seconds = time.monotonic() - self._started
        tokens = sum(sum(row.tokens.values()) for row in self._rows.values())
        rate = tokens / seconds if seconds > 0 else 0.0
        return Group(*rows, Text(f"{tokens:,} tokens · {rate:,.0f}/s · {seconds:.0f} s", style="dim"))

    def _mark(self, round_number: int, index: int, mark: str) -> None:
        marks = self._rows[round_number].marks
        # The last round has room for its further attempts.
        marks.extend([WAITING] * (index + 1 - len(marks)))
        marks[index] = mark

    def _finish(self, trajectory: Trajectory) -> None:
        if trajectory.purpose != "summarize":
            self._mark(trajectory.round, trajectory.index, mark_of(trajectory))
        tokens = self._rows[trajectory.round].tokens
        known = tokens.get(trajectory.index, 0) if trajectory.purpose == "summarize" else 0
        tokens[trajectory.index] = known + trajectory.usage.completion_tokens
        if trajectory.status != "complete":
            self._say(f"{trajectory.round}.{trajectory.index} {trajectory.status}")

    def _say(self, line: str, style: str = "dim") -> None:
        # In a terminal the rows tell all but warnings; elsewhere each line does.
        if self._quiet or (self._live is not None and not line.startswith("warning")):
            return
        self._console.print(Text(line, style=style), soft_wrap=True)


def say(line: str) -> None:
    """A line of its own on stderr."""
    print(line, file=sys.stderr, flush=True)


def mark_of(trajectory: Trajectory) -> str:
    """The mark of a trajectory that ended."""
    if trajectory.status == "complete":
        return DONE
    return DROPPED if trajectory.status == "dropped" else FAILED


def closing_line(result: Result, trace: Path | None) -> str:
    """Tokens, calls, seconds, agreement and trace file of a result, in one line."""
    about = "about " if result.usage.estimated else ""
    parts = [f"{about}{result.ttc_tokens:,} tokens", _counted(result.calls.made, "call", "calls")]
    if result.calls.failed:
        parts.append(f"{result.calls.failed} failed")
    if result.calls.cancelled:
        parts.append(f"{result.calls.cancelled} dropped")
    parts.append(f"{result.wall_s:.1f} s")
    if result.agreement is not None:
        parts.append(f"agreement {result.agreement:.0%}")
    if trace is not None:
        parts.append(f"trace {trace}")
    return " · ".join(parts)


def _rendered(row: RoundRow) -> Text:
    label = "answer" if row.purpose == "select" else f"round {row.number}"
    text = Text(f"{label:<9}")
    for mark in row.marks:
        text.append(mark, style=_STYLES[mark])
    ended = sum(mark in (DONE, FAILED, DROPPED) for mark in row.marks)
    text.append(f"  {ended}/{len(row.marks)}  {sum(row.tokens.values()):,} tokens", style="dim")
    if row.agreement is not None:
        text.append(f"  agreement {row.agreement:.0%}", style="dim")
    if row.note:
        text.append(f"  {row.note}", style="dim")
    return text


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
