"""From a step's settings to the step at work, with the endpoints, pools and sandboxes that it needs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

from pacore.config import Config, choose_endpoint
from pacore.data.files import RecordFile
from pacore.data.filling import Filled, PoolDirectory, PoolFiller
from pacore.data.pool import DESCRIPTION, MessagePool
from pacore.data.recipe import (
    Checker,
    CodeTests,
    Decontaminate,
    Deduplicate,
    Pool,
    Rules,
    Stage1,
    Stage2,
    StepConfig,
    Validity,
)
from pacore.data.record import Record
from pacore.data.steps.accuracy import MessageAccuracyFilter, SynthesisAccuracyFilter
from pacore.data.steps.checker_choice import CheckerChoice
from pacore.data.steps.codetests import TestGeneration
from pacore.data.steps.resuming import ResumedStep
from pacore.data.steps.rules import RuleFilter
from pacore.data.steps.step import Fallen, Step
from pacore.data.steps.validity import ValidityJudge
from pacore.errors import ConfigError
from pacore.sampling.bundled_model import Report
from pacore.sampling.embedded import EngineSettings
from pacore.session import DEFAULT, Session, open_session
from pacore.traces.sharing import SharedCalls, SharingSampler
from pacore.traces.store import TrajectoryStore
from pacore.verifiers.cache import CachedVerifier, VerdictFile
from pacore.verifiers.code.verifier import CodeVerifier
from pacore.verifiers.judge.cache import JudgmentCache
from pacore.verifiers.judge.protocols import VALIDITY, with_words
from pacore.verifiers.judge.verifier import JudgeVerifier
from pacore.verifiers.math.symbolic import SymbolicPool
from pacore.verifiers.math.verifier import MathVerifier
from pacore.verifiers.rules import RuleVerifier
from pacore.verifiers.sandbox.choose import find_sandbox

AnyStep: TypeAlias = Callable[[Iterable[Record]], Iterable[Record | Fallen] | AsyncIterator[Record | Fallen]]
"""A step, asynchronous or not."""


class Workplace(Struct, frozen=True, kw_only=True):
    """Where a step works and with what: ``folder`` keeps what lets it go on, ``base`` is where its paths are
    seen from, ``pool`` is the pool that an earlier step made. ``fingerprint`` is of all that a step is given;
    without one, a step that keeps no calls begins anew.
    """

    config: Config
    folder: Path
    base: Path
    seed: int = 0
    engine: EngineSettings = EngineSettings()
    processes: int | None = None
    concurrency: int | None = None
    allow_unsafe: bool = False
    headers: Path | None = None
    pool: Path | None = None
    fingerprint: str = ""
    report: Report = print


@contextlib.asynccontextmanager
async def open_step(config: StepConfig, place: Workplace) -> AsyncIterator[AnyStep]:
    """The step that ``config`` describes, ready to take records; what it needs is closed afterwards."""
    async with contextlib.AsyncExitStack() as stack:
        if isinstance(config, (Deduplicate, Decontaminate)):
            yield _numeric(config, place)
        elif isinstance(config, Rules):
            yield RuleFilter(without=config.without, least_tests=config.least_tests)
        elif isinstance(config, (CodeTests, Checker)):
            step = _sandboxed(config, place, stack)
            journal = place.folder / "outcomes.jsonl"
            yield ResumedStep(step, journal, place.fingerprint) if place.fingerprint else step
        elif isinstance(config, Validity):
            yield await _validity(config, place, stack)
        elif isinstance(config, Pool):
            yield await _pool(config, place, stack)
        elif isinstance(config, Stage1):
            path = place.base / config.pool if config.pool is not None else place.pool
            pool = None if path is None else stack.enter_context(MessagePool(path, reasoning=False))
            yield MessageAccuracyFilter(pool, math_below=config.math_below, code_below=config.code_below)
        else:
            yield await _stage2(config, place, stack)


def _numeric(config: Deduplicate | Decontaminate, place: Workplace) -> AnyStep:
    # Here, as numpy is in an extra.
    from pacore.data.steps.decontamination import Decontamination
    from pacore.data.steps.duplicates import Deduplication

    if isinstance(config, Deduplicate):
        return Deduplication(near=config.near, same_numbers=config.same_numbers, processes=place.processes)
    if not config.against:
        raise ConfigError("decontaminate: against names no benchmark file")
    benchmarks = [
        record
        for path in config.against
        for record in RecordFile(path if path.startswith("hub:") else place.base / path)
    ]
    return Decontamination(benchmarks, processes=place.processes)


def _sandboxed(config: CodeTests | Checker, place: Workplace, stack: contextlib.AsyncExitStack) -> Step:
    sandbox = find_sandbox(allow_unsafe=place.allow_unsafe)
    if isinstance(config, Checker):
        return CheckerChoice(sandbox)
    verifier = stack.enter_context(CodeVerifier(sandbox, headers=place.headers))
    return TestGeneration(sandbox, verifier, number=config.number, seed=place.seed, required=config.required)


async def _session(name: str | None, place: Workplace, stack: contextlib.AsyncExitStack) -> Session:
    """The endpoint called ``name``, or what the environment and pacore.toml say; else the embedded engine."""
    endpoint = choose_endpoint(place.config, name=name)
    return await stack.enter_async_context(
        open_session(endpoint, concurrency=place.concurrency, engine=place.engine, report=place.report)
    )


async def _validity(config: Validity, place: Workplace, stack: contextlib.AsyncExitStack) -> AnyStep:
    session = await _session(config.endpoint, place, stack)
    sampler = session.samplers[DEFAULT]
    protocol = VALIDITY if config.words is None else with_words(VALIDITY, place.base / config.words)
    judge = JudgeVerifier(
        sampler,
        protocol,
        model=session.models.get(sampler.name, sampler.name),
        judgments=config.passes,
        rule="unanimous",
        cache=JudgmentCache(place.folder / "judgments.jsonl"),
        seed=place.seed,
    )
    return ValidityJudge(judge, limit=session.slots.limit)


def _rules(place: Workplace, stack: contextlib.AsyncExitStack) -> RuleVerifier:
    pool = stack.enter_context(SymbolicPool())
    return stack.enter_context(
        RuleVerifier(
            MathVerifier(pool),
            lambda: CodeVerifier(find_sandbox(allow_unsafe=place.allow_unsafe), headers=place.headers),
        )
    )


async def _pool(config: Pool, place: Workplace, stack: contextlib.AsyncExitStack) -> AnyStep:
    session = await _session(config.endpoint, place, stack)
    verifier = _rules(place, stack)
    settings = {
        "models": session.models,
        "sampling": msgspec.to_builtins(config.sampling),
        "seed": place.seed,
        "reasoning": config.reasoning,
    }

    async def fill(records: Iterable[Record]) -> AsyncIterator[Record | Fallen]:
        with PoolDirectory(place.folder, settings, reasoning=config.reasoning) as directory:
            filler = PoolFiller(
                session,
                directory,
                size=config.size,
                verifier=verifier,
                seed=place.seed,
                sampling=config.sampling,
            )
            _tell(await filler.run(records), place.report)
        for record in records:
            yield record

    return fill


def _tell(filled: Filled, report: Report) -> None:
    report(f"{filled.made} trajectories made, {filled.tokens:,} tokens")
    for reason, count in filled.reasons.items():
        report(f"{count} calls failed: {reason}; build again to make them")


async def _stage2(config: Stage2, place: Workplace, stack: contextlib.AsyncExitStack) -> AnyStep:
    session = await _session(config.endpoint, place, stack)
    sampler = session.samplers[DEFAULT]
    store = stack.enter_context(TrajectoryStore(place.folder / "calls.jsonl", reasoning="dropped"))
    verdicts = stack.enter_context(VerdictFile(place.folder / "verdicts.jsonl"))
    return SynthesisAccuracyFilter(
        SharingSampler(sampler, SharedCalls(store), model=session.models.get(sampler.name, sampler.name)),
        CachedVerifier(_rules(place, stack), [verdicts]),
        episodes=config.episodes,
        low=config.low,
        high=config.high,
        sampling=config.sampling,
        seed=place.seed,
        limit=session.slots.limit,
    )


def holds_pool(folder: Path) -> bool:
    """Whether a step left a pool in ``folder``."""
    return (folder / DESCRIPTION).is_file()
