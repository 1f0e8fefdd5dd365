"""Progress of a pool: how many trajectories are in, how many of them are right, and the time left."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pacore.cli.batch_progress import time_left
from pacore.cli.progress import say
from pacore.data.filling import Filled

_LINE_EVERY_S = 10.0


class PoolDisplay:
    """A bar in a terminal, a line now and then elsewhere."""

    def __init__(self, *, total: int, quiet: bool = False, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._quiet = quiet
        self._total = total
        self._begun = self._last = time.monotonic()
        self._progress = Progress(
            TextColumn("trajectories"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}"),
            TimeElapsedColumn(),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
            refresh_per_second=4,
        )
        self._task = self._progress.add_task("trajectories", total=total, told="")

    def __enter__(self) -> PoolDisplay:
        self._begun = self._last = time.monotonic()
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def take(self, filled: Filled) -> None:
        """Show how far it is."""
        done = filled.made + filled.failed
        seconds = time.monotonic() - self._begun
        told = f"{filled.tokens:,} tokens"
        if filled.verified:
            told += f" · {filled.correct / filled.verified:.1%} right"
        if filled.failed:
            told += f" · {filled.failed} failed"
        told += time_left(seconds, done, self._total - done)
        self._progress.update(self._task, completed=done, told=told)
        if self._quiet or self._console.is_terminal:
            return
        if time.monotonic() - self._last > _LINE_EVERY_S:
            self._last = time.monotonic()
            say(f"{done}/{self._total} trajectories · {told}")
