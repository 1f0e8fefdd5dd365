"""The Python interface: solve a problem, or watch it being solved."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, TypedDict, Unpack

from pacore.config import Budget, checked, choose_endpoint, load_config, unknown_name
from pacore.coordination.agreement import Equivalence
from pacore.coordination.compaction import Compaction
from pacore.coordination.loop import coordinate
from pacore.coordination.schedules import ScheduleLike, parse_schedule
from pacore.errors import ConfigError
from pacore.events import Event, RunFinished
from pacore.problems import ProblemLike, read_problem
from pacore.sampling.embedded import EngineSettings
from pacore.session import EndpointLike, open_session
from pacore.traces.journal import Journal
from pacore.types import Result, SamplingParams


class SolveOptions(TypedDict, total=False):
    """Options of :func:`solve`, :func:`solve_sync` and :func:`stream`.

    endpoint      an Endpoint, a base URL, or a sampler. Where none is given it is the one of
                  OPENAI_BASE_URL, else that of pacore.toml, else the embedded engine.
    schedule      ``"low"`` (the default), ``"medium"``, ``"high"``, widths such as ``"32,4"``, the name of
                  another preset or of a table in pacore.toml, or a Schedule.
    sampling      of all rounds that do not bring their own.
    seed          the run's seed; every random choice follows from it and the problem.
    budget        ceilings in tokens, dollars and seconds.
    endpoints     further endpoints by name, for schedules that name several.
    concurrency   calls in flight.
    equivalence   what "the same answer" means, for votes and agreement.
    compactions   compactions of one's own by name.
    trace         a file that gets the journal of the run.
    engine        settings of the embedded engine.
    """

    endpoint: EndpointLike | None
    schedule: ScheduleLike
    sampling: SamplingParams | None
    seed: int
    budget: Budget | None
    endpoints: Mapping[str, EndpointLike] | None
    concurrency: int | None
    equivalence: Equivalence | None
    compactions: Mapping[str, Compaction] | None
    trace: Path | str | None
    engine: EngineSettings | None


async def stream(problem: ProblemLike, **options: Unpack[SolveOptions]) -> AsyncGenerator[Event, None]:
    """Solve ``problem`` and yield each event as it happens; the last is RunFinished with the Result.

    Closing the generator, or leaving the loop that reads it with ``aclosing``, stops every call.
    Raises PacoreError and its kinds.
    """
    unknown = sorted(options.keys() - SolveOptions.__annotations__.keys())
    if unknown:
        raise ConfigError(unknown_name("option", unknown[0], set(SolveOptions.__annotations__)))
    config = load_config()
    schedule = parse_schedule(options.get("schedule", "low"), config.schedules)
    endpoint = options.get("endpoint")
    if endpoint is None:
        endpoint = choose_endpoint(config)
    budget = checked(options.get("budget") or Budget(), "budget")
    sampling = checked(options.get("sampling") or SamplingParams(), "sampling")
    trace = options.get("trace")
    asked = read_problem(problem)
    async with contextlib.AsyncExitStack() as stack:
        session = await stack.enter_async_context(
            open_session(
                endpoint,
                others={**config.endpoints, **(options.get("endpoints") or {})},
                schedules=[schedule],
                concurrency=options.get("concurrency"),
                budget=budget,
                engine=options.get("engine"),
            )
        )
        context = session.context(
            seed=options.get("seed", 0),
            sampling=sampling,
            equivalence=options.get("equivalence"),
            compactions=options.get("compactions"),
            seconds=budget.seconds,
        )
        journal = stack.enter_context(Journal(Path(trace))) if trace is not None else None
        events = await stack.enter_async_context(contextlib.aclosing(coordinate(asked, schedule, context)))
        async for event in events:
            if journal is not None:
                await journal.write(event)
            yield event


async def solve(problem: ProblemLike, **options: Unpack[SolveOptions]) -> Result:
    """Solve ``problem`` and return its Result; see :class:`SolveOptions`.

    A result with status ``failed`` is returned, not raised. Raises PacoreError and its kinds where the
    run as a whole cannot be done.
    """
    result: Result | None = None
    async with contextlib.aclosing(stream(problem, **options)) as events:
        async for event in events:
            if isinstance(event, RunFinished):
                result = event.result
    assert result is not None, "every run ends with RunFinished"
    return result


def solve_sync(problem: ProblemLike, **options: Unpack[SolveOptions]) -> Result:
    """:func:`solve` for code that is not asynchronous, also inside a running event loop (notebooks)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(solve(problem, **options))
    return _in_own_thread(problem, options)


def _in_own_thread(problem: ProblemLike, options: SolveOptions) -> Result:
    outcome: dict[str, Any] = {}
    started = threading.Event()

    async def work() -> None:
        outcome["loop"], outcome["task"] = asyncio.get_running_loop(), asyncio.current_task()
        started.set()
        outcome["result"] = await solve(problem, **options)

    def run() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=run, name="pacore-solve")
    thread.start()
    try:
        thread.join()
    except BaseException:
        # Ctrl-C here must end the calls there.
        started.wait()
        outcome["loop"].call_soon_threadsafe(outcome["task"].cancel)
        thread.join()
        raise
    if "error" in outcome:
        raise outcome["error"]
    result: Result = outcome["result"]
    return result
