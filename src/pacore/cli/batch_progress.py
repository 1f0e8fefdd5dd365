"""Progress over many problems: a bar with the time left; a line a problem where there is no terminal."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from pacore.events import Event, RunFinished, TrajectoryFinished


class BatchDisplay:
    """Reads the events of all problems and shows how far the whole is."""

    def __init__(self, *, total: int, done: int, quiet: bool = False, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._quiet = quiet
        self._total = total
        self._already_done = done
        self._done = done
        self._tokens = 0
        self._trouble = 0
        self._started = time.monotonic()
        self._progress = Progress(
            TextColumn("problems"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
            refresh_per_second=4,
        )
        self._task = self._progress.add_task("problems", total=total, completed=done, told="", left="")

    def __enter__(self) -> BatchDisplay:
        self._started = time.monotonic()
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def take(self, problem_id: str, event: Event) -> None:
        """Take the next event of a problem."""
        if isinstance(event, TrajectoryFinished):
            self._tokens += event.trajectory.usage.completion_tokens
        elif isinstance(event, RunFinished):
            self._done += 1
            result = event.result
            self._trouble += result.status != "complete"
            if not self._quiet and not self._console.is_terminal:
                self._console.print(
                    Text(
                        f"{self._done}/{self._total} {problem_id} {result.status} "
                        f"{result.ttc_tokens:,} tokens {result.wall_s:.1f} s{self._time_left()}"
                    ),
                    soft_wrap=True,
                )
        else:
            return
        self._update()

    def _update(self) -> None:
        seconds = max(1e-6, time.monotonic() - self._started)
        told = f"{self._tokens:,} tokens · {self._tokens / seconds:,.0f}/s"
        if self._trouble:
            told += f" · {self._trouble} not complete"
        self._progress.update(self._task, completed=self._done, told=told, left=self._time_left())

    def _time_left(self) -> str:
        """By the pace of this sitting."""
        finished = self._done - self._already_done
        return time_left(time.monotonic() - self._started, finished, self._total - self._done)


def time_left(seconds: float, done: int, left: int) -> str:
    """An estimate, with a dot before it, by what was done so far; nothing before the first is done."""
    if done < 1 or left < 1:
        return ""
    ahead = seconds / done * left
    if ahead < 90:
        return f" · about {ahead:.0f} s left"
    if ahead < 5400:
        return f" · about {ahead / 60:.0f} min left"
    return f" · about {ahead / 3600:.1f} h left"
