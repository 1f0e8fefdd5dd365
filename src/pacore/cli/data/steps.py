"""Each step of a corpus as a command of its own: records in, records out, and what fell with the reason."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import typer

from pacore.cli import options, verifying
from pacore.cli.counting import CountDisplay
from pacore.cli.data import files
from pacore.cli.data.build import Processes
from pacore.cli.progress import say
from pacore.config import Config, convert, load_config
from pacore.data import recipe
from pacore.data.build import run_step
from pacore.data.files import write_records
from pacore.data.recipe import StepConfig
from pacore.data.stepping import Workplace
from pacore.data.steps.accuracy import CODE_BELOW, MATH_BELOW
from pacore.data.steps.arithmetic import OPERATIONS, make_arithmetic
from pacore.data.steps.rules import CODE_RULES, LEAST_TESTS, MATH_RULES
from pacore.sampling.embedded import EngineSettings

Out: TypeAlias = Annotated[
    Path, typer.Option("--out", metavar="FILE", help="What is left: a new .jsonl or other.")
]
Fallen: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="What fell and why, as JSON lines.")
]
State: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Keeps calls and verdicts, to go on after a stop.")
]


def filter_rules(
    source: files.Source,
    out: Out,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help=f"Not to apply: {', '.join({**MATH_RULES, **CODE_RULES})}."),
    ] = None,
    least_tests: Annotated[int, typer.Option(min=0, help="Tests that a program must have.")] = LEAST_TESTS,
    fallen: Fallen = None,
    dialect: files.Dialect = None,
    skip_bad: files.SkipBad = False,
) -> None:
    """Leave out images, links, several parts, several answers, open-ended questions."""
    step = recipe.Rules(without=tuple(without or ()), least_tests=least_tests)
    _run(step, _Files(source, out, fallen, dialect, skip_bad))


def deduplicate(
    source: files.Source,
    out: Out,
    near: Annotated[float, typer.Option(min=0.01, max=1, help="Least similarity of near duplicates.")] = 0.8,
    any_numbers: Annotated[
        bool, typer.Option("--any-numbers", help="Problems that differ in numbers alone are duplicates too.")
    ] = False,
    fallen: Fallen = None,
    processes: Processes = None,
    dialect: files.Dialect = None,
    skip_bad: files.SkipBad = False,
) -> None:
    """Leave out problems that are there already, word for word or nearly so."""
    step = recipe.Deduplicate(near=near, same_numbers=not any_numbers)
    _run(step, _Files(source, out, fallen, dialect, skip_bad), processes=processes)


def decontaminate(
    source: files.Source,
    out: Out,
    against: Annotated[
        list[str], typer.Option(metavar="FILE", help="A benchmark's problems; may be repeated.")
    ],
    fallen: Fallen = None,
    processes: Processes = None,
    dialect: files.Dialect = None,
    skip_bad: files.SkipBad = False,
) -> None:
    """Leave out what is in benchmarks: the same but for numbers, or with 64 tokens in common."""
    step = recipe.Decontaminate(against=tuple(against))
    _run(step, _Files(source, out, fallen, dialect, skip_bad), processes=processes)


def validity(
    source: files.Source,
    out: Out,
    passes: Annotated[int, typer.Option(min=1, help="Judgments, which must all pass.")] = 4,
    judge: options.EndpointName = None,
    words: verifying.Words = None,
    fallen: Fallen = None,
    state: State = None,
    seed: options.Seed = 0,
    concurrency: options.Concurrency = None,
    dialect: files.Dialect = None,
    skip_bad: files.SkipBad = False,
    config: options.ConfigPath = None,
) -> None:
    """Leave out questions and answers that a judge does not find valid, four times of four."""
    step = recipe.Validity(endpoint=judge, passes=passes, words=None if words is None else str(words))
    _run(
        step,
        _Files(source, out, fallen, dialect, skip_bad),
        config=load_config(config),
        state=state,
        seed=seed,
        concurrency=concurrency,
    )


def tests(
    source: files.Source,
    out: Out,
    number: Annotated[int, typer.Option(min=1, help="New tests a problem.")] = 20,
    required: Annotated[
        bool, typer.Option("--required", help="Leave out problems without a generator.")
    ] = False,
    fallen: Fallen = None,
    seed: options.Seed = 0,
    headers: verifying.Headers = None,
    allow_unsafe_exec: verifying.AllowUnsafe = False,
    dialect: files.Dialect = None,
    skip_bad: files.SkipBad = False,
) -> None:
    """Make tests by each problem's generator; right solutions must agree and wrong ones fail."""
    step = recipe.CodeTests(number=number, required=required)
    _run(
        step,
        _Files(source, out, fallen, dialect, skip_bad),
        seed=seed,
        headers=headers,
        allow_unsafe=allow_unsafe_exec,
    )


def checker(
    source: files.Source,
    out: Out,
    fallen: Fallen = None,
    allow_unsafe_exec: verifying.AllowUnsafe = False,
    dialect: files.Dialect = None,
    skip_bad: files.SkipBad = False,
) -> None:
    """Choose a testlib checker for problems that name none, by what right solutions print."""
    _run(recipe.Checker(), _Files(source, out, fallen, dialect, skip_bad), allow_unsafe=allow_unsafe_exec)


def stage1(
    source: files.Source,
    out: Out,
    pool: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Of `pacore data pool`; else the records' own messages."),
    ] = None,
    math_below: Annotated[float, typer.Option(help="Bound on math, not included.")] = MATH_BELOW,
    code_below: Annotated[float, typer.Option(help="Bound on code, not included.")] = CODE_BELOW,
    fallen: Fallen = None,
    dialect: files.Dialect = None,
    skip_bad: files.SkipBad = False,
) -> None:
    """Keep 0 < mean message accuracy < 9/24 (math), < 15/24 (code), with the messages in the records."""
    path = None if pool is None else str(pool.absolute())
    step = recipe.Stage1(pool=path, math_below=math_below, code_below=code_below)
    _run(step, _Files(source, out, fallen, dialect, skip_bad))


def stage2(
    source: files.Source,
    out: Out,
    episodes: Annotated[int, typer.Option(min=1, help="Syntheses a problem.")] = 16,
    low: Annotated[int, typer.Option(min=1, help="Fewest messages in an episode.")] = 16,
    high: Annotated[int, typer.Option(min=1, help="Most messages in an episode.")] = 24,
    endpoint: options.EndpointName = None,
    max_tokens: options.MaxTokens = None,
    fallen: Fallen = None,
    state: State = None,
    seed: options.Seed = 0,
    concurrency: options.Concurrency = None,
    dialect: files.Dialect = None,
    skip_bad: files.SkipBad = False,
    headers: verifying.Headers = None,
    allow_unsafe_exec: verifying.AllowUnsafe = False,
    config: options.ConfigPath = None,
) -> None:
    """Keep 0 < synthesis accuracy < 1, measured through the endpoint of a checkpoint."""
    sampling = options.sampling_of(1.0, 1.0, max_tokens)
    table = {"endpoint": endpoint, "episodes": episodes, "low": low, "high": high}
    step = convert({**table, "sampling": msgspec.to_builtins(sampling)}, recipe.Stage2, "stage2")
    _run(
        step,
        _Files(source, out, fallen, dialect, skip_bad),
        config=load_config(config),
        state=state,
        seed=seed,
        concurrency=concurrency,
        headers=headers,
        allow_unsafe=allow_unsafe_exec,
    )


def arithmetic(
    out: Out,
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="How many problems.")] = 1000,
    low: Annotated[int, typer.Option(min=0, help="Least operand.")] = 10**11,
    high: Annotated[int, typer.Option(min=1, help="Largest operand.")] = 10**13,
    operation: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"Out of {', '.join(OPERATIONS)}; may be repeated."),
    ] = None,
    seed: options.Seed = 0,
) -> None:
    """Make arithmetic with exact answers, of any size."""
    chosen: Any = tuple(operation or OPERATIONS)
    made = make_arithmetic(number, low=low, high=high, operations=chosen, seed=seed)
    say(f"{write_records(out, made)} problems · {out}")


class _Files:
    """Where a step reads and writes."""

    def __init__(
        self, source: str, out: Path, fallen: Path | None, dialect: str | None, skip_bad: bool
    ) -> None:
        self.records = files.open_records(source, dialect, skip_bad)
        self.out = out
        self.fallen = fallen


def _run(
    step: StepConfig,
    where: _Files,
    *,
    config: Config | None = None,
    state: Path | None = None,
    **surroundings: Any,
) -> None:
    with tempfile.TemporaryDirectory(prefix="pacore-step-") as scratch:
        place = Workplace(
            config=config or Config(),
            folder=state or Path(scratch),
            base=Path(),
            report=say,
            engine=EngineSettings(),
            **surroundings,
        )
        with CountDisplay("problems", total=None) as display:
            counts = run_step(step, place, where.records, where.out, fallen=where.fallen, told=display.show)
    for name, count in counts.reasons.items():
        typer.echo(f"{count:>9}  {name}")
    say(f"{counts.taken} in, {counts.left} out · {where.out}")
