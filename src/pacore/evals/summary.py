"""What an evaluation says: each method's accuracy, cost and synthesis, and comparisons at equal compute."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec import Struct

from pacore.data.files import RecordFile
from pacore.errors import JournalError
from pacore.evals.consistency import PooledVotes, PoolSummary
from pacore.evals.directory import PROBLEMS, read_outcomes, read_settings, read_votes
from pacore.evals.outcome import Outcome
from pacore.evals.statistics import (
    Difference,
    Estimate,
    Rate,
    Scores,
    estimate,
    paired_difference,
    problem_means,
    rate,
    spread,
)
from pacore.types import Schedule

Column: TypeAlias = list[Outcome]


class Matched(Struct, frozen=True, kw_only=True):
    """Self-consistency at the same tokens as a method: ``votes`` trajectories, and the paired difference.

    ``short`` where the pool holds fewer trajectories than that would take.
    """

    votes: int
    tokens: float
    accuracy: Estimate
    difference: Difference
    short: bool


class MethodSummary(Struct, frozen=True, kw_only=True):
    """One method on one benchmark. Means are over problems of means over runs; rates are of runs.

    ``tokens`` is the TTC a problem; ``seconds`` are the median and 95th percentile along the slowest
    trajectories; ``emergent`` is the paper's Emergent Correctness Rate, ``harm`` how often a vote over the
    messages would have been right and the synthesis was wrong, ``cross_checks`` references to the
    references an output.
    """

    name: str
    family: str
    votes: int | None
    accuracy: Estimate
    tokens: float
    prompt_tokens: float
    calls: float
    seconds: tuple[float, float]
    usd: float | None
    truncated: float
    unverifiable: float
    degraded: float
    failed: float
    estimated: bool
    emergent: Rate | None = None
    harm: Rate | None = None
    cross_checks: float | None = None
    against_single: Difference | None = None
    matched: Matched | None = None
    axes: dict[str, float] = {}


class EvalSummary(Struct, frozen=True, kw_only=True):
    """One evaluation: one model (``label``) on one benchmark."""

    path: str
    label: str
    step: int | None
    benchmark: str
    title: str
    problems: int
    methods: list[MethodSummary]
    pool: PoolSummary | None
    settings: dict[str, Any]


def summarize(path: Path, *, seed: int = 0) -> EvalSummary:
    """Read and sum up an evaluation. Raises JournalError where ``path`` holds none or no result yet."""
    settings = read_settings(path)
    records = list(RecordFile(path / PROBLEMS, dialect="pacore"))
    place = {record.id: number for number, record in enumerate(records)}
    axes = [record.extra.get("axis") for record in records]
    votes = {found.problem: found for found in read_votes(path)}
    pool = PooledVotes(votes, list(place), seed) if votes else None
    columns: dict[str, Column] = {}
    for outcome in read_outcomes(path, answers=False):
        columns.setdefault(outcome.method, []).append(outcome)
    named = _methods_of(settings)
    methods = [
        _method(name, named[name], columns[name], place, axes=axes, seed=seed)
        for name in named
        if name in columns
    ]
    scores = {name: _scores(columns[name], place) for name in columns}
    if pool is not None:
        methods += [
            msgspec.structs.replace(_vote_method(name, k, pool, scores, seed), usd=pool.usd(k, settings))
            for name, k in _votes_of(settings).items()
        ]
    if not methods:
        raise JournalError(f"{path} holds no result yet; run `pacore eval run` with it first")
    single = next((scores[name] for name in named if named[name] == Schedule() and name in scores), None)
    single_scores = pool.rewards if single is None and pool is not None else single
    methods = [_compared(method, scores, single_scores, pool, seed) for method in methods]
    benchmark = settings.get("benchmark", {})
    return EvalSummary(
        path=str(path),
        label=settings.get("label") or model_name(settings),
        step=settings.get("step"),
        benchmark=benchmark.get("name", ""),
        title=benchmark.get("title", ""),
        problems=len(records),
        methods=sorted(methods, key=lambda method: method.tokens),
        pool=pool.summary() if pool is not None else None,
        settings=settings,
    )


def _methods_of(settings: Mapping[str, Any]) -> dict[str, Schedule]:
    """The schedules by method; their names are left out, so that equal ones are equal."""
    found = {}
    for key, value in settings.items():
        if key.startswith("method ") and value.get("schedule") is not None:
            schedule = msgspec.convert({**value["schedule"], "name": ""}, Schedule)
            found[key.removeprefix("method ")] = schedule
    return found


def _votes_of(settings: Mapping[str, Any]) -> dict[str, int]:
    return {
        key.removeprefix("method "): value["votes"]
        for key, value in settings.items()
        if key.startswith("method ") and value.get("votes") is not None
    }


def family_of(schedule: Schedule) -> str:
    """What a line in a figure connects: methods that differ in how much they spend, not in how."""
    rounds = schedule.rounds
    if not rounds:
        return "one call"
    if schedule.finish != "synthesize":
        return {"vote": "vote", "select": "best of n"}[schedule.finish]
    compactions = {spec.compact for spec in rounds}
    if compactions != {"conclusion"}:
        return "no compaction" if "none" in compactions else f"compaction: {', '.join(sorted(compactions))}"
    if all(spec.width == 1 for spec in rounds):
        return "sequential"
    if any(spec.reads != "all" for spec in rounds):
        return "subsets (RSA)"
    return "parallel, synthesised"


def model_name(settings: Mapping[str, Any]) -> str:
    """The name of the model that an evaluation asked; of several, the first."""
    models = [value for key, value in settings.items() if key.startswith("model ")]
    return models[0] if models else "model"


def _scores(column: Column, place: Mapping[str, int]) -> Scores:
    return _table(column, place, [outcome.reward for outcome in column])


def _table(column: Column, place: Mapping[str, int], values: Sequence[float]) -> Scores:
    """Values as an array (problems, runs); NaN where there is none."""
    runs = 1 + max(outcome.run for outcome in column)
    table = np.full((len(place), runs), math.nan)
    for outcome, value in zip(column, values, strict=True):
        table[place[outcome.problem], outcome.run] = value
    return table


def _method(
    name: str,
    schedule: Schedule,
    column: Column,
    place: Mapping[str, int],
    *,
    axes: Sequence[Any],
    seed: int,
) -> MethodSummary:
    def mean(values: Sequence[float]) -> float:
        return float(np.mean(problem_means(_table(column, place, values))))

    scores = _scores(column, place)
    seconds = spread(np.array([outcome.critical_s for outcome in column]))
    prices = [outcome.usd for outcome in column if outcome.usd is not None]
    calls = sum(outcome.calls for outcome in column)
    return MethodSummary(
        name=name,
        family=family_of(schedule),
        votes=None,
        accuracy=estimate(scores, seed=seed),
        tokens=mean([outcome.ttc_tokens for outcome in column]),
        prompt_tokens=mean([outcome.prompt_tokens for outcome in column]),
        calls=mean([outcome.calls for outcome in column]),
        seconds=seconds[:2],
        usd=sum(prices) / len(prices) if prices else None,
        truncated=sum(outcome.truncated for outcome in column) / max(1, calls),
        unverifiable=_share(outcome.verdict == "unverifiable" for outcome in column),
        degraded=_share(outcome.status == "degraded" for outcome in column),
        failed=_share(outcome.status == "failed" for outcome in column),
        estimated=any(outcome.estimated for outcome in column),
        axes=_axis_means(scores, axes),
        **_synthesis(column, place),
    )


def _share(flags: Iterable[bool]) -> float:
    listed = list(flags)
    return sum(listed) / len(listed)


def _synthesis(column: Column, place: Mapping[str, int]) -> dict[str, Any]:
    """The measures of synthesis over all trajectories that read messages, all rounds together."""
    wrong, emerged, led, harmed = (np.zeros(len(place)) for _ in range(4))
    mentions, outputs = 0, 0
    for outcome in column:
        row = place[outcome.problem]
        for one in outcome.synthesis:
            outputs += 1
            mentions += one.cross_checks
            if one.right == 0:
                wrong[row] += 1
                emerged[row] += one.reward >= 1.0
            if one.majority >= 1.0:
                led[row] += 1
                harmed[row] += one.reward < 1.0
    if not outputs:
        return {}
    return {
        "emergent": rate(emerged, wrong),
        "harm": rate(harmed, led),
        "cross_checks": mentions / outputs,
    }


def _axis_means(scores: Scores, axes: Sequence[Any]) -> dict[str, float]:
    """Accuracy by axis, for benchmarks whose figure is the mean over axes."""
    named = sorted({str(axis) for axis in axes if axis is not None})
    found = {}
    for name in named:
        rows = scores[[str(axis) == name for axis in axes]]
        means = problem_means(rows)
        if means.size:
            found[name] = float(np.mean(means))
    return found


def _vote_method(name: str, k: int, pool: PooledVotes, scores: dict[str, Scores], seed: int) -> MethodSummary:
    if k > pool.size:
        raise JournalError(f"{name} needs {k} trajectories a problem; the pool holds {pool.size}")
    scores[name] = pool.majority(k)
    prompts = float(np.mean([np.mean(found.prompt_tokens) for found in pool.known]))
    summary = pool.summary()
    return MethodSummary(
        name=name,
        family="self-consistency",
        votes=k,
        accuracy=estimate(scores[name], seed=seed),
        tokens=k * pool.tokens,
        prompt_tokens=k * prompts,
        calls=float(k),
        seconds=spread(pool.seconds(k))[:2],
        usd=None,
        truncated=summary.truncated,
        unverifiable=summary.unverifiable,
        degraded=0.0,
        failed=0.0,
        estimated=False,
    )


def _compared(
    method: MethodSummary,
    scores: Mapping[str, Scores],
    single: Scores | None,
    pool: PooledVotes | None,
    seed: int,
) -> MethodSummary:
    """The method with its paired differences: from one call, and from votes at the same tokens."""
    own = scores[method.name]
    changes: dict[str, Any] = {}
    if single is not None and method.family != "one call":
        changes["against_single"] = paired_difference(own, single, seed=seed)
    if pool is not None and pool.can_vote and method.votes is None and method.family != "one call":
        wanted = max(1, round(method.tokens / pool.tokens))
        k = min(wanted, pool.size)
        changes["matched"] = Matched(
            votes=k,
            tokens=k * pool.tokens,
            accuracy=estimate(pool.majority(k), seed=seed),
            difference=paired_difference(own, pool.majority(k), seed=seed),
            short=wanted > pool.size,
        )
    return msgspec.structs.replace(method, **changes) if changes else method
