"""``pacore run``: a file of problems into a directory of results, going on where it stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from pacore.batch import Batch, check_same_problem
from pacore.cli import options
from pacore.cli.batch_progress import BatchDisplay
from pacore.cli.progress import say
from pacore.config import Budget
from pacore.coordination.schedules import parse_schedule
from pacore.errors import ConfigError, PacoreError
from pacore.problems import read_problem_lines
from pacore.session import DEFAULT, open_session
from pacore.traces.run_directory import RunDirectory
from pacore.types import Problem, SamplingParams, Schedule
from pacore.version import __version__


def run(
    problems: Annotated[Path, typer.Argument(metavar="PROBLEMS.jsonl", help="One problem a line.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Results and traces; goes on where it stopped.")],
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
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try problems again that failed or were degraded.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    config: options.ConfigPath = None,
    gguf: options.Gguf = None,
    offline: options.Offline = False,
) -> None:
    """Answer every problem of a file; run the same command again to go on where it stopped."""
    choice = options.choose(
        config_path=config,
        name=endpoint,
        base_url=base_url,
        model=model,
        api_key_env=api_key_env,
        gguf=gguf,
        offline=offline,
    )
    chosen = parse_schedule(schedule, choice.config.schedules)
    sampling = options.sampling_of(temperature, top_p, max_tokens)
    budget = options.budget_of(budget_tokens, budget_usd, deadline, choice.endpoint)
    if not problems.is_file():
        raise ConfigError(f"there is no file {problems}; give a JSONL file with one problem a line")
    # The whole file is checked before anything is spent.
    ids = [problem.id for problem in read_problem_lines(problems)]
    if not ids:
        raise ConfigError(f"{problems} holds no problem")
    with RunDirectory(out, _settings(choice, chosen, seed, sampling)) as directory:
        if retry_failed:
            directory.forget_failed()
        done = set(directory.statuses())
        for problem in read_problem_lines(problems):
            if problem.id in done:
                check_same_problem(problem, directory.trace_path(problem.id))
        todo = [problem_id for problem_id in ids if problem_id not in done]
        display = BatchDisplay(total=len(ids), done=len(ids) - len(todo), quiet=quiet)
        batch_options = {"seed": seed, "sampling": sampling, "retry_failed": retry_failed}
        unopened = 0
        if todo:
            waiting = (problem for problem in read_problem_lines(problems) if problem.id not in done)
            try:
                unopened = asyncio.run(
                    _run(waiting, chosen, choice, directory, display, budget, concurrency, batch_options)
                )
            except (KeyboardInterrupt, PacoreError):
                ended = len(set(directory.statuses()) & set(ids))
                say(f"stopped: {ended} of {len(ids)} problems are done; run the same command again to go on")
                raise
        raise typer.Exit(_close(directory, ids, unopened))


async def _run(
    problems: Iterator[Problem],
    schedule: Schedule,
    choice: options.EndpointChoice,
    directory: RunDirectory,
    display: BatchDisplay,
    budget: Budget,
    concurrency: int | None,
    batch_options: Mapping[str, Any],
) -> int:
    async with open_session(
        choice.endpoint,
        others=choice.config.endpoints,
        schedules=[schedule],
        concurrency=concurrency,
        budget=budget,
        engine=choice.engine,
        report=say,
    ) as session:
        directory.begin({"models": session.models})
        session.ledger.record(directory.usage(), session.samplers[DEFAULT].capabilities.prices)
        with display:
            batch = Batch(session, directory, schedule, reader=display.take, **batch_options)
            await batch.run(problems)
    return batch.unopened


def _settings(
    choice: options.EndpointChoice, schedule: Schedule, seed: int, sampling: SamplingParams
) -> dict[str, Any]:
    """What decides the results; how fast they come (slots, deadlines) may change between sittings."""
    return {
        "pacore": __version__,
        "endpoint": options.endpoint_settings(choice),
        "schedule": msgspec.to_builtins(schedule),
        "seed": seed,
        "sampling": msgspec.to_builtins(sampling),
    }


def _close(directory: RunDirectory, ids: list[str], unopened: int) -> int:
    statuses = directory.statuses()
    counts = dict.fromkeys(("complete", "degraded", "failed"), 0)
    for problem_id in ids:
        if problem_id in statuses:
            counts[statuses[problem_id]] += 1
    told = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    say(f"{told or 'none answered'} of {len(ids)} · {directory.results_path}")
    if counts["degraded"] or counts["failed"]:
        say("--retry-failed tries the failed and degraded ones again")
    if unopened:
        say(f"{unopened} problems were not begun, as time or budget was up; run again with more to go on")
    return 0 if counts["complete"] == len(ids) else 2
