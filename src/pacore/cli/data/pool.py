"""``pacore data pool``: n trajectories a problem, verified as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from pacore.cli import options, verifying
from pacore.cli.counting import CountDisplay
from pacore.cli.data import files
from pacore.cli.progress import say
from pacore.config import Budget
from pacore.data.filling import Filled, PoolDirectory, PoolFiller, Told, missing_calls
from pacore.data.pool import MessagePool
from pacore.data.record import Record
from pacore.errors import ConfigError, PacoreError
from pacore.evals.benchmark import load_benchmark
from pacore.session import open_session
from pacore.traces.store import KeepReasoning
from pacore.types import SamplingParams

EXIT_INCOMPLETE = 2


def pool(
    problems: files.Source,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The pool; goes on where it stopped.")],
    size: Annotated[int, typer.Option("-n", "--size", min=1, help="Trajectories a problem.")] = 24,
    base_url: options.BaseUrl = None,
    model: options.Model = None,
    api_key_env: options.ApiKeyEnv = None,
    endpoint: options.EndpointName = None,
    seed: options.Seed = 0,
    temperature: options.Temperature = 1.0,
    top_p: options.TopP = 1.0,
    max_tokens: options.MaxTokens = None,
    reasoning: Annotated[
        KeepReasoning,
        typer.Option(help="What becomes of reasoning text: compressed, kept as it is, or dropped."),
    ] = "packed",
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Only generate.")] = False,
    judge: verifying.Judge = None,
    protocol: verifying.Protocol = None,
    judge_words: verifying.Words = None,
    headers: verifying.Headers = None,
    allow_unsafe_exec: verifying.AllowUnsafe = False,
    budget_tokens: options.BudgetTokens = None,
    budget_usd: options.BudgetUsd = None,
    concurrency: options.Concurrency = None,
    benchmark: Annotated[
        str | None, typer.Option(metavar="NAME", help="Ask the problems as this benchmark does.")
    ] = None,
    dialect: files.Dialect = None,
    skip_bad: files.SkipBad = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    config: options.ConfigPath = None,
    gguf: options.Gguf = None,
    offline: options.Offline = False,
) -> None:
    """Draw a pool of trajectories for every problem of a file, and verify each as it comes.

    24 a problem train synthesis, 512 make evaluations cheap. Run the same command again to go on where it
    stopped, with a larger -n to add to it, or with more problems.
    """
    choice = options.choose(
        config_path=config,
        name=endpoint,
        base_url=base_url,
        model=model,
        api_key_env=api_key_env,
        gguf=gguf,
        offline=offline,
    )
    described = None if benchmark is None else load_benchmark(benchmark)
    sampling = options.sampling_of(temperature, top_p, max_tokens)
    how = _How(
        choice=choice,
        sampling=sampling if described is None else described.sampled(sampling),
        seed=seed,
        size=size,
        judge=verifying.choose_judge(
            choice.config, judge, protocol, judge_words, cache=out / "judgments.jsonl"
        ),
        verify=not no_verify,
        headers=headers,
        allow_unsafe=allow_unsafe_exec,
        budget=options.budget_of(budget_tokens, budget_usd, None, choice.endpoint),
        concurrency=concurrency,
    )
    records: Iterable[Record] = files.open_records(problems, dialect, skip_bad)
    if described is not None:
        records = list(described.records(problems))
    # The whole file is read before anything is spent.
    ids = _unique_ids(records, problems)
    raise typer.Exit(_filled(records, ids, out, reasoning, how, quiet=quiet))


class _How(msgspec.Struct, frozen=True, kw_only=True):
    choice: options.EndpointChoice
    sampling: SamplingParams
    seed: int
    size: int
    judge: verifying.JudgeChoice | None
    verify: bool
    headers: Path | None
    allow_unsafe: bool
    budget: Budget
    concurrency: int | None


def _filled(
    records: Iterable[Record],
    ids: list[str],
    out: Path,
    reasoning: KeepReasoning,
    how: _How,
    *,
    quiet: bool,
) -> int:
    """Fill the pool and tell of it; the exit status."""
    settings = {
        "endpoint": options.endpoint_settings(how.choice),
        "sampling": msgspec.to_builtins(how.sampling),
        "seed": how.seed,
        "reasoning": reasoning,
    }
    with PoolDirectory(out, settings, reasoning=reasoning) as directory:
        missing = missing_calls(directory, ids, how.size)
        display = CountDisplay("trajectories", total=missing, quiet=quiet)
        try:
            with display:
                filled = asyncio.run(
                    _fill(records, directory, how, lambda filled: display.show(*_told(filled)))
                )
        except (KeyboardInterrupt, PacoreError):
            say("stopped: what was made is kept; run the same command again to go on")
            raise
        missing = missing_calls(directory, ids, how.size)
    _close(out, ids, filled, missing)
    return EXIT_INCOMPLETE if missing else 0


def _told(filled: Filled) -> tuple[int, str]:
    told = f"{filled.tokens:,} tokens"
    if filled.verified:
        told += f" · {filled.correct / filled.verified:.1%} right"
    if filled.failed:
        told += f" · {filled.failed} failed"
    return filled.made + filled.failed, told


async def _fill(records: Iterable[Record], directory: PoolDirectory, how: _How, told: Told) -> Filled:
    choice = how.choice
    async with (
        open_session(
            choice.endpoint,
            concurrency=how.concurrency,
            budget=how.budget,
            engine=choice.engine,
            report=say,
        ) as session,
        verifying.open_verifier(
            choice.config, how.judge, allow_unsafe=how.allow_unsafe, headers=how.headers
        ) as verifier,
    ):
        directory.work.begin({"models": session.models})
        filler = PoolFiller(
            session,
            directory,
            size=how.size,
            verifier=verifier if how.verify else None,
            seed=how.seed,
            sampling=how.sampling,
            told=told,
        )
        return await filler.run(records)


def _unique_ids(records: Iterable[Record], source: str) -> list[str]:
    ids: dict[str, None] = {}
    for record in records:
        if record.id in ids:
            raise ConfigError(f"{source}: the id {record.id!r} stands there twice; make ids unique")
        ids[record.id] = None
    if not ids:
        raise ConfigError(f"{source} holds no problem")
    return list(ids)


def _close(out: Path, ids: list[str], filled: Filled, missing: int) -> None:
    """Print each problem's accuracy, and the sum of it."""
    accuracies = []
    with MessagePool(out) as made:
        for name in ids:
            accuracy = made.accuracy(name)
            rulings = made.rulings(name)
            row = {
                "id": name,
                "trajectories": len(made[name]) if name in made else 0,
                "accuracy": accuracy,
                "unverifiable": sum(ruling.verdict == "unverifiable" for ruling in rulings.values()),
                "no_conclusion": sum(
                    ruling.reason.startswith("no_conclusion") for ruling in rulings.values()
                ),
            }
            typer.echo(msgspec.json.encode(row).decode())
            accuracies += [] if accuracy is None else [accuracy]
    mean = f" · mean accuracy {sum(accuracies) / len(accuracies):.1%}" if accuracies else ""
    say(f"{filled.made} trajectories made, {filled.tokens:,} tokens{mean} · {out}")
    for reason, count in filled.reasons.items():
        say(f"{count} calls failed: {reason}")
    if missing:
        say(f"{missing} trajectories are missing still; run the same command again to make them")
