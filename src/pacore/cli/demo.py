"""``pacore demo``: the gain of synthesis, live in seconds, with the miniature model that ships."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from pacore.cli import options
from pacore.cli.progress import RunDisplay, say
from pacore.coordination.loop import coordinate
from pacore.coordination.schedules import parse_schedule
from pacore.errors import MissingExtraError
from pacore.events import Event, RunFinished, TrajectoryFinished
from pacore.session import open_session
from pacore.traces.journal import Journal
from pacore.types import Problem, Result, Schedule


def demo(
    schedule: options.ScheduleText = "16",
    problems: Annotated[int, typer.Option(min=1, help="Fresh problems.")] = 8,
    locks: Annotated[int, typer.Option(min=1, max=3, help="Locks of a problem: one to three.")] = 3,
    seed: Annotated[
        int | None, typer.Option(help="Of problems and sampling; random where not given.")
    ] = None,
    before: Annotated[bool, typer.Option("--before", help="The model before it was trained.")] = False,
    trace: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the traces go.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Solve fresh digit locks with a shipped model: its single trajectories beside their synthesis."""
    try:
        from pacore.training.miniature.weights import BASE, TRAINED
    except ImportError as error:
        raise MissingExtraError("the demo", "train") from error
    chosen = parse_schedule(schedule, {})
    start = secrets.randbelow(2**31) if seed is None else seed
    folder = trace or Path(tempfile.mkdtemp(prefix="pacore-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    asked = _problems(problems, locks, start)
    say(f"{problems} problems of {locks} locks, seed {start}; traces in {folder}")
    found = asyncio.run(_solve(asked, chosen, BASE if before else TRAINED, start, folder, quiet))
    _conclude(found, chosen)
    raise typer.Exit(0 if all(one.result.status == "complete" for one in found) else 2)


@dataclass(frozen=True, slots=True)
class _Found:
    """A problem's run: its result, and how many of the first round's trajectories were right."""

    result: Result
    right: bool
    first: int
    first_right: int


def _problems(number: int, size: int, seed: int) -> list[Problem]:
    from pacore.seeds import derive_random
    from pacore.training.miniature.locks import code_text, make_problem

    draw = derive_random("demo", seed)
    made = [make_problem(draw, size) for _ in range(number)]
    return [
        Problem(
            id=f"locks-{place}",
            messages=({"role": "user", "content": problem.text},),
            ground_truth=code_text(problem.code),
        )
        for place, problem in enumerate(made, start=1)
    ]


async def _solve(
    problems: list[Problem], schedule: Schedule, model: str, seed: int, folder: Path, quiet: bool
) -> list[_Found]:
    from pacore.training.miniature.sampler import MiniatureSampler
    from pacore.training.miniature.weights import shipped_model

    found = []
    async with open_session(MiniatureSampler(shipped_model(model), model), schedules=[schedule]) as session:
        for problem in problems:
            first: list[bool] = []
            display = RunDisplay(quiet=quiet)
            path = folder / f"{problem.id}.jsonl"
            with Journal(path) as journal, display:
                events = coordinate(problem, schedule, session.context(seed=seed))
                async with contextlib.aclosing(events):
                    async for event in events:
                        await journal.write(event)
                        display.take(event)
                        _note(event, problem, first)
                        if isinstance(event, RunFinished):
                            result = event.result
            display.close_with(result, path)
            found.append(_told(problem, result, first))
    return found


def _note(event: Event, problem: Problem, first: list[bool]) -> None:
    if isinstance(event, TrajectoryFinished) and event.trajectory.round == 1:
        first.append(event.trajectory.content == problem.ground_truth)


def _told(problem: Problem, result: Result, first: list[bool]) -> _Found:
    found = _Found(result, result.answer == problem.ground_truth, len(first), sum(first))
    mark = "right" if found.right else "wrong"
    told = f"{found.first_right} of {found.first} first trajectories right"
    print(f"{problem.id}: {result.answer} ({mark}); {told}")
    return found


def _conclude(found: list[_Found], schedule: Schedule) -> None:
    single = sum(one.first_right for one in found) / max(1, sum(one.first for one in found))
    right = sum(one.right for one in found)
    tokens = sum(one.result.ttc_tokens for one in found)
    print(
        f"single trajectories: {100 * single:.0f} % right; {schedule.name or 'the schedule'}: "
        f"{right} of {len(found)} problems right, {tokens} tokens"
    )
