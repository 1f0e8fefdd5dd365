"""Many problems through one session: as many open as the slots can use, results as they come."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from pacore.admission import Admission
from pacore.coordination.loop import coordinate
from pacore.errors import JournalError
from pacore.events import Event, RoundStarted, RunFinished
from pacore.sampling.budget import MIN_CAP
from pacore.session import DEFAULT, Session
from pacore.traces.journal import Journal, recorded_problem, recorded_trajectories
from pacore.traces.run_directory import RunDirectory
from pacore.types import Problem, SamplingParams, Schedule

Reader = Callable[[str, Event], None]
"""Gets every event with the id of its problem, after the journal has it."""


class Batch:
    """Runs problems that a run directory has no result for yet.

    Problems are opened only when a slot would stand idle otherwise, so memory holds a few of them
    however many there are, and early ones finish early.
    """

    def __init__(
        self,
        session: Session,
        directory: RunDirectory,
        schedule: Schedule,
        *,
        seed: int = 0,
        sampling: SamplingParams | None = None,
        retry_failed: bool = False,
        progress: bool = False,
        reader: Reader | None = None,
    ) -> None:
        self._session = session
        self._directory = directory
        self._schedule = schedule
        self._seed = seed
        self._sampling = sampling
        self._retry_failed = retry_failed
        self._progress = progress
        self._reader = reader
        self._end: float | None = None
        self.unopened = 0

    async def run(self, problems: Iterable[Problem]) -> None:
        """Run all of them. Raises EndpointRefusedError as soon as an endpoint refuses the run.

        Being cancelled, it closes every call in flight; what was finished is kept.
        """
        seconds = self._session.budget.seconds
        self._end = None if seconds is None else asyncio.get_running_loop().time() + seconds
        await Admission(self._session).run(partial(self._solve, problem) for problem in problems)

    def _can_begin(self, seconds_left: float | None) -> bool:
        """Whether time and money are left for one more problem; what is not begun can be later."""
        session = self._session
        seconds = session.budget.seconds
        reserved = 0.0 if seconds is None else seconds * session.budget.final_share
        if seconds_left is not None and seconds_left <= reserved:
            return False
        capabilities = session.samplers[DEFAULT].capabilities
        share = session.ledger.share(self._schedule.planned_calls, 0, capabilities.prices)
        return share is None or share >= MIN_CAP

    async def _solve(self, problem: Problem, opened: Callable[[], None]) -> None:
        seconds = None if self._end is None else self._end - asyncio.get_running_loop().time()
        if not self._can_begin(seconds):
            self.unopened += 1
            return
        path = self._directory.trace_path(problem.id)
        context = self._session.context(
            seed=self._seed,
            sampling=self._sampling,
            recorded=recorded_trajectories(path, retry_failed=self._retry_failed),
            progress=self._progress,
            seconds=seconds,
        )
        check_same_problem(problem, path)
        events = coordinate(problem, self._schedule, context)
        with Journal(path, resume=True) as journal:
            async with contextlib.aclosing(events):
                async for event in events:
                    await journal.write(event)
                    if isinstance(event, RunFinished):
                        self._directory.append(event.result)
                    if self._reader is not None:
                        self._reader(problem.id, event)
                    if isinstance(event, RoundStarted):
                        opened()


def check_same_problem(problem: Problem, trace: Path) -> None:
    """Raise JournalError where ``trace`` was begun with other messages under the same id."""
    begun = recorded_problem(trace)
    if begun is not None and list(begun.messages) != list(problem.messages):
        raise JournalError(
            f"the problem {problem.id!r} is not the one that {trace} was begun with; "
            "give it another id, or choose another --out"
        )
