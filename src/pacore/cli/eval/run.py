"""``pacore eval run``: methods on a benchmark, into a directory that can be gone on with."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import typer

from pacore.cli import options, verifying
from pacore.cli.counting import CountDisplay
from pacore.cli.progress import say
from pacore.config import Budget
from pacore.data.pool import DESCRIPTION as POOL_DESCRIPTION
from pacore.data.pool import MessagePool
from pacore.data.record import Record
from pacore.errors import ConfigError, PacoreError
from pacore.evals.benchmark import Benchmark, is_problem_file, load_benchmark
from pacore.evals.directory import EvalDirectory, read_outcomes
from pacore.evals.evaluation import Evaluation
from pacore.evals.methods import Method, parse_methods
from pacore.evals.outcome import Outcome
from pacore.sampling.scripted import ScriptedSampler
from pacore.session import DEFAULT, open_session
from pacore.traces.directory import read_description
from pacore.types import SamplingParams
from pacore.version import __version__

EXIT_INCOMPLETE = 2


Name: TypeAlias = Annotated[
    str, typer.Argument(metavar="BENCHMARK", help="A name, a .toml, or a file of problems.")
]
Out: TypeAlias = Annotated[Path, typer.Option(metavar="DIR", help="Results; goes on where it stopped.")]
Data: TypeAlias = Annotated[
    str | None, typer.Option(metavar="FILE", help="The benchmark's data; else its hub is asked.")
]
PoolPath: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Draw first rounds from this pool (pacore data pool).")
]
Methods: TypeAlias = Annotated[
    str, typer.Option(metavar="LIST", help="Schedules and votes, as in low,[2,2],self-consistency@16.")
]
Runs: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Independent runs a problem; the benchmark's own by default.")
]
Limit: TypeAlias = Annotated[int | None, typer.Option(min=1, help="Only the first so many problems.")]
Label: TypeAlias = Annotated[
    str, typer.Option(help="What the report calls the model; its own name by default.")
]
StepNumber: TypeAlias = Annotated[
    int | None, typer.Option(help="Of training, where this measures a checkpoint.")
]


AcceptFailures: TypeAlias = Annotated[
    bool,
    typer.Option("--accept-failures", help="Take runs with failed calls as they came out, instead of again."),
]


def run(
    benchmark: Name,
    out: Out,
    data: Data = None,
    pool: PoolPath = None,
    methods: Methods = "single,low",
    runs: Runs = None,
    limit: Limit = None,
    label: Label = "",
    step: StepNumber = None,
    base_url: options.BaseUrl = None,
    model: options.Model = None,
    api_key_env: options.ApiKeyEnv = None,
    endpoint: options.EndpointName = None,
    seed: options.Seed = 0,
    temperature: options.Temperature = 1.0,
    top_p: options.TopP = 1.0,
    max_tokens: options.MaxTokens = None,
    judge: verifying.Judge = None,
    protocol: verifying.Protocol = None,
    judge_words: verifying.Words = None,
    headers: verifying.Headers = None,
    allow_unsafe_exec: verifying.AllowUnsafe = False,
    budget_tokens: options.BudgetTokens = None,
    budget_usd: options.BudgetUsd = None,
    concurrency: options.Concurrency = None,
    accept_failures: AcceptFailures = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    config: options.ConfigPath = None,
    gguf: options.Gguf = None,
    offline: options.Offline = False,
) -> None:
    """Evaluate methods on a benchmark. Run the same command again to go on where it stopped.

    Calls are shared: schedules that begin alike, and runs that are repeated with more methods, pay only for
    what is new.
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
    described = load_benchmark(benchmark)
    source = benchmark if data is None and is_problem_file(benchmark) else data
    plan = _Plan(
        benchmark=described,
        source=described.source(source),
        choice=choice,
        methods=parse_methods(methods, choice.config.schedules),
        runs=runs or described.runs,
        limit=limit,
        pool=pool,
        sampling=described.sampled(options.sampling_of(temperature, top_p, max_tokens)),
        seed=seed,
        judge=verifying.choose_judge(
            choice.config,
            judge,
            protocol or (described.protocol if judge else None),
            judge_words,
            cache=out / "judgments.jsonl",
        ),
        verifying={"allow_unsafe": allow_unsafe_exec, "headers": headers},
        budget=options.budget_of(budget_tokens, budget_usd, None, choice.endpoint),
        concurrency=concurrency,
        accept_failures=accept_failures,
        notes={"label": label, "step": step},
    )
    raise typer.Exit(_evaluated(plan, out, quiet=quiet))


class _Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All that an evaluation is told."""

    benchmark: Benchmark
    source: str
    choice: options.EndpointChoice
    methods: list[Method]
    runs: int
    limit: int | None
    pool: Path | None
    sampling: SamplingParams
    seed: int
    judge: verifying.JudgeChoice | None
    verifying: dict[str, Any]
    budget: Budget
    concurrency: int | None
    accept_failures: bool
    notes: dict[str, Any]

    def settings(self) -> dict[str, Any]:
        """What decides the results. More methods, runs and problems may come later, so they are no part."""
        pool = None if self.pool is None else read_description(self.pool / POOL_DESCRIPTION)["settings"]
        return {
            "pacore": __version__,
            "benchmark": msgspec.to_builtins(self.benchmark),
            "pool": pool,
            "endpoint": options.endpoint_settings(self.choice),
            "sampling": msgspec.to_builtins(self.sampling),
            "seed": self.seed,
            "judge": None if self.judge is None else [self.judge.endpoint, self.judge.protocol.name],
            **self.notes,
            **{f"method {method.name}": msgspec.to_builtins(method) for method in self.methods},
        }


def _evaluated(plan: _Plan, out: Path, *, quiet: bool) -> int:
    records = _records(plan)
    scheduled = [method for method in plan.methods if method.schedule is not None]
    if plan.pool is None and len(scheduled) < len(plan.methods):
        raise ConfigError(
            "self-consistency@k is estimated from a pool: give --pool, or the preset self-consistency"
        )
    with contextlib.ExitStack() as stack:
        pool = None
        if plan.pool is not None:
            pool = stack.enter_context(MessagePool(plan.pool, reasoning=_reads_reasoning(scheduled)))
            _check_pool(pool, records, plan.methods)
        directory = stack.enter_context(EvalDirectory(out, plan.settings(), records))
        wanted = [(m.name, r.id, n) for m in scheduled for r in records for n in range(plan.runs)]
        missing = [key for key in wanted if key not in directory.done]
        display = CountDisplay("runs", total=len(missing), quiet=quiet)
        tally = _Tally(display)
        try:
            with display:
                failed = asyncio.run(_evaluate(plan, directory, records, pool, tally))
        except (KeyboardInterrupt, PacoreError):
            say("stopped: what was finished is kept; run the same command again to go on")
            raise
    _tell(out, plan.methods)
    if failed:
        say(
            f"{failed} runs are missing, as calls or verdicts failed; run the same command again to make them"
        )
    say(f"`pacore eval report {out} --out report` makes the report")
    return EXIT_INCOMPLETE if failed else 0


def _records(plan: _Plan) -> list[Record]:
    records: list[Record] = []
    seen: set[str] = set()
    for record in plan.benchmark.records(plan.source):
        if record.id in seen:
            raise ConfigError(f"{plan.source}: the id {record.id!r} stands there twice; make ids unique")
        seen.add(record.id)
        records.append(record)
        if plan.limit is not None and len(records) == plan.limit:
            break
    if not records:
        raise ConfigError(f"{plan.source} holds no problem of {plan.benchmark.name}")
    return records


def _reads_reasoning(methods: Sequence[Method]) -> bool:
    return any(
        spec.compact != "conclusion"
        for method in methods
        if method.schedule is not None
        for spec in method.schedule.rounds
    )


def _check_pool(pool: MessagePool, records: Sequence[Record], methods: Sequence[Method]) -> None:
    """Before anything is spent: every problem has a pool, asked in the same words, and large enough."""
    asked = {record.id: record for record in pool.records()}
    for record in records:
        if record.id not in pool:
            raise ConfigError(
                f"the pool {pool.path} has nothing for the problem {record.id!r}; fill it first"
            )
        if (known := asked.get(record.id)) is None or known.messages != record.messages:
            raise ConfigError(
                f"the pool {pool.path} asked {record.id!r} in other words than the benchmark does; "
                "make it from the benchmark (pacore data pool --benchmark NAME)"
            )
        if known.truth != record.truth:
            raise ConfigError(f"the pool {pool.path} was verified with another truth of {record.id!r}")
    smallest = min(len(pool[record.id]) for record in records)
    for method in methods:
        first = method.schedule.rounds[0].width if method.schedule and method.schedule.rounds else 1
        needed = method.votes or first
        if needed > smallest:
            raise ConfigError(
                f"{method.name} draws {needed} trajectories a problem; the pool {pool.path} holds {smallest}"
            )


class _Tally:
    """Counts outcomes for the display."""

    def __init__(self, display: CountDisplay) -> None:
        self._display = display
        self._rewards: dict[str, list[float]] = defaultdict(list)
        self._done = 0

    def take(self, outcome: Outcome | None) -> None:
        self._done += 1
        if outcome is not None:
            self._rewards[outcome.method].append(outcome.reward)
        told = [f"{name} {sum(found) / len(found):.1%}" for name, found in self._rewards.items()]
        self._display.show(self._done, ", ".join(told))


async def _evaluate(
    plan: _Plan,
    directory: EvalDirectory,
    records: Sequence[Record],
    pool: MessagePool | None,
    tally: _Tally,
) -> int:
    choice = plan.choice
    schedules = [method.schedule for method in plan.methods if method.schedule is not None]
    async with (
        open_session(
            choice.endpoint if schedules else ScriptedSampler([]),
            others=choice.config.endpoints,
            schedules=schedules,
            concurrency=plan.concurrency,
            budget=plan.budget,
            engine=choice.engine,
            report=say,
        ) as session,
        verifying.open_verifier(choice.config, plan.judge, **plan.verifying) as verifier,
    ):
        prices = session.samplers[DEFAULT].capabilities.prices
        models = {f"model {name}": model for name, model in session.models.items()}
        # Nothing is asked of it where all methods are estimated.
        directory.work.begin({**models, "prices": prices} if schedules else {})
        evaluation = Evaluation(
            session,
            directory,
            records,
            plan.methods,
            runs=plan.runs,
            verifier=verifier,
            pool=pool,
            seed=plan.seed,
            sampling=plan.sampling,
            accept_failures=plan.accept_failures,
            told=tally.take,
        )
        await evaluation.run()
    return evaluation.failed


def _tell(out: Path, methods: Sequence[Method]) -> None:
    """One line a method on stdout, as JSON."""
    rows: dict[str, list[Outcome]] = {method.name: [] for method in methods}
    for outcome in read_outcomes(out, answers=False):
        if outcome.method in rows:
            rows[outcome.method].append(outcome)
    for name, outcomes in rows.items():
        if outcomes:
            count = len(outcomes)
            row = {
                "method": name,
                "runs": count,
                "accuracy": sum(outcome.reward for outcome in outcomes) / count,
                "ttc_tokens": sum(outcome.ttc_tokens for outcome in outcomes) / count,
                "unverifiable": sum(outcome.verdict == "unverifiable" for outcome in outcomes),
            }
            typer.echo(msgspec.json.encode(row).decode())
