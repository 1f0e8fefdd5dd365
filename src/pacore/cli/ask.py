"""``pacore ask``: one question, one answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from pacore.cli import options
from pacore.cli.progress import RunDisplay, say
from pacore.config import Budget
from pacore.coordination.loop import coordinate
from pacore.coordination.schedules import parse_schedule
from pacore.errors import ProblemError
from pacore.events import RunFinished
from pacore.problems import read_problem
from pacore.session import open_session
from pacore.traces.journal import Journal
from pacore.types import Problem, Result, SamplingParams, Schedule


def ask(
    question: Annotated[str, typer.Argument(help="The question; - reads it from stdin.")],
    base_url: options.BaseUrl = None,
    model: options.Model = None,
    api_key_env: options.ApiKeyEnv = None,
    endpoint: options.EndpointName = None,
    schedule: options.ScheduleText = "low",
    seed: options.Seed = 0,
    temperature: options.Temperature = 1.0,
    top_p: options.TopP = 1.0,
    max_tokens: options.MaxTokens = None,
    budget_tokens: options.BudgetTokens = None,
    budget_usd: options.BudgetUsd = None,
    deadline: options.Deadline = None,
    concurrency: options.Concurrency = None,
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="Where the trace goes.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    config: options.ConfigPath = None,
    gguf: options.Gguf = None,
    offline: options.Offline = False,
) -> None:
    """Answer one question; the answer goes to stdout, everything else to stderr."""
    choice = options.choose(
        config_path=config,
        name=endpoint,
        base_url=base_url,
        model=model,
        api_key_env=api_key_env,
        gguf=gguf,
        offline=offline,
    )
    text = _stdin_text() if question == "-" else question
    if not text.strip():
        raise ProblemError("the question is empty; give it as an argument, or - to read it from stdin")
    problem = read_problem(text)
    path = trace or _default_trace(problem)
    try:
        result = asyncio.run(
            _ask(
                problem,
                parse_schedule(schedule, choice.config.schedules),
                choice,
                seed=seed,
                sampling=options.sampling_of(temperature, top_p, max_tokens),
                budget=options.budget_of(budget_tokens, budget_usd, deadline, choice.endpoint),
                concurrency=concurrency,
                trace=path,
                display=RunDisplay(quiet=quiet),
            )
        )
    except KeyboardInterrupt:
        say(f"stopped; what was thought so far is in {path} (pacore view {path})")
        raise
    if json:
        print(msgspec.json.encode(result.record()).decode())
    elif result.answer is not None:
        print(result.answer)
    raise typer.Exit(0 if result.status == "complete" else 2)


async def _ask(
    problem: Problem,
    schedule: Schedule,
    choice: options.EndpointChoice,
    *,
    seed: int,
    sampling: SamplingParams,
    budget: Budget,
    concurrency: int | None,
    trace: Path,
    display: RunDisplay,
) -> Result:
    result: Result | None = None
    async with contextlib.AsyncExitStack() as stack:
        session = await stack.enter_async_context(
            open_session(
                choice.endpoint,
                others=choice.config.endpoints,
                schedules=[schedule],
                concurrency=concurrency,
                budget=budget,
                engine=choice.engine,
                report=say,
            )
        )
        context = session.context(seed=seed, sampling=sampling, seconds=budget.seconds)
        journal = stack.enter_context(Journal(trace))
        stack.enter_context(display)
        events = await stack.enter_async_context(contextlib.aclosing(coordinate(problem, schedule, context)))
        async for event in events:
            await journal.write(event)
            display.take(event)
            if isinstance(event, RunFinished):
                result = event.result
    assert result is not None, "every run ends with RunFinished"
    display.close_with(result, trace)
    return result


def _stdin_text() -> str:
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise ProblemError(
            f"the question on stdin is not UTF-8 text ({error.reason} at byte {error.start})"
        ) from error


def _default_trace(problem: Problem) -> Path:
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    question = re.sub(r"[^a-z0-9]+", "-", str(problem.messages[-1]["content"])[:40].lower()).strip("-")
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{question or problem.id}-{os.getpid()}.jsonl"
    return Path(base) / "pacore" / "traces" / name
