"""Progress of a long count: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pacore.cli.batch_progress import time_left
from pacore.cli.progress import say

_LINE_EVERY_S = 10.0


class CountDisplay:
    """Shows how many of ``total`` things called ``noun`` are done; ``None``: of how many is not known."""

    def __init__(
        self, noun: str, *, total: int | None, quiet: bool = False, console: Console | None = None
    ) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._quiet = quiet
        self._noun = noun
        self._total = total
        self._begun = self._last = time.monotonic()
        self._progress = Progress(
            TextColumn(noun),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}"),
            TimeElapsedColumn(),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
            refresh_per_second=4,
        )
        self._task = self._progress.add_task(noun, total=total, told="")

    def __enter__(self) -> CountDisplay:
        self._begun = self._last = time.monotonic()
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, done: int, told: str = "") -> None:
        """Show how far it is, with a few more words, and how long the rest may take."""
        now = time.monotonic()
        if self._total is not None:
            told += time_left(now - self._begun, done, self._total - done)
        self._progress.update(self._task, completed=done, told=told)
        if not self._quiet and not self._console.is_terminal and now - self._last > _LINE_EVERY_S:
            self._last = now
            say(f"{done}{'' if self._total is None else f'/{self._total}'} {self._noun} · {told}")
