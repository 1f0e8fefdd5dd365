"""Filling a message pool: trajectories drawn through a session, kept and verified as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from pacore.coordination.planning import RoundPlan
from pacore.data.pool import (
    DESCRIPTION,
    PROBLEMS,
    TRAJECTORIES,
    VERDICTS,
    indexes_by_problem,
    pool_key,
)
from pacore.data.problem_file import ProblemFile
from pacore.data.record import Record
from pacore.errors import ContextOverflowError, cause_of
from pacore.sampling.sampler import Unwatched
from pacore.session import DEFAULT, Session
from pacore.traces.directory import WorkDirectory
from pacore.traces.store import KeepReasoning, TrajectoryStore
from pacore.types import Problem, RoundSpec, SamplingParams, Trajectory
from pacore.verifiers.cache import CachedVerifier, Ruling, VerdictFile
from pacore.verifiers.verifier import Verifier


@dataclass
class Filled:
    """What became of the calls of one sitting; ``reasons`` are the endpoint's words on failed ones."""

    made: int = 0
    failed: int = 0
    tokens: int = 0
    verified: int = 0
    correct: float = 0.0
    unverifiable: int = 0
    reasons: dict[str, int] = field(default_factory=dict)


Told = Callable[[Filled], None]
"""Is told after each trajectory how far the sitting is."""


class PoolDirectory:
    """A pool's directory for writing; held by one process at a time.

    ``settings`` decide what is generated (endpoint, model, sampling, seed): others are refused.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], *, reasoning: KeepReasoning) -> None:
        with ExitStack() as stack:
            self.work = stack.enter_context(WorkDirectory(path, settings, description=DESCRIPTION))
            self.store = stack.enter_context(TrajectoryStore(path / TRAJECTORIES, reasoning=reasoning))
            self.verdicts = stack.enter_context(VerdictFile(path / VERDICTS))
            self.problems = stack.enter_context(ProblemFile(path / PROBLEMS))
            self._stack = stack.pop_all()

    def __enter__(self) -> PoolDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


class PoolFiller:
    """Makes what a pool lacks: up to ``size`` trajectories a problem, each verified.

    With no ``verifier`` nothing is verified. Failed calls leave nothing behind and are made again in the
    next sitting.
    """

    def __init__(
        self,
        session: Session,
        directory: PoolDirectory,
        *,
        size: int,
        verifier: Verifier | None,
        seed: int = 0,
        sampling: SamplingParams | None = None,
        told: Told | None = None,
    ) -> None:
        self._session = session
        self._directory = directory
        self._size = size
        self._seed = seed
        self._sampling = sampling or SamplingParams()
        self._told = told or (lambda filled: None)
        self._verifier = None if verifier is None else CachedVerifier(verifier, [directory.verdicts])
        # A few more than the endpoint takes at once, so that no slot waits while verdicts are made.
        limit = session.slots.limit
        self._room = asyncio.Semaphore(limit + max(4, limit // 4))
        self.filled = Filled()

    async def run(self, records: Iterable[Record]) -> Filled:
        """Fill the pools of ``records``. Raises EndpointRefusedError where the endpoint refuses the run.

        Being cancelled, it closes every call in flight; what was finished is kept.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for record in records:
                    self._directory.problems.admit(record)
                    await self._fill(record, group)
        except BaseExceptionGroup as failures:
            raise cause_of(failures) from failures
        return self.filled

    async def _fill(self, record: Record, group: asyncio.TaskGroup) -> None:
        problem = record.problem()
        plan: RoundPlan | None = None
        ruled = self._directory.verdicts.of_pool(record.id)
        for index in range(self._size):
            kept = pool_key(record.id, index) in self._directory.store
            if kept and (self._verifier is None or index in ruled):
                continue
            if plan is None:
                spec = RoundSpec(width=self._size)
                plan = RoundPlan(
                    problem, spec, 1, [], purpose="reason", sampling=self._sampling, seed=self._seed
                )
            await self._room.acquire()
            group.create_task(self._one(problem, plan, index, kept=kept))

    async def _one(self, problem: Problem, plan: RoundPlan, index: int, *, kept: bool) -> None:
        try:
            if kept:
                trajectory = self._directory.store[pool_key(problem.id, index)]
                await self._verify(problem, trajectory, index)
            else:
                await self._make(problem, plan, index)
        finally:
            self._room.release()
        self._told(self.filled)

    async def _make(self, problem: Problem, plan: RoundPlan, index: int) -> None:
        sampler = self._session.samplers[DEFAULT]
        call = plan.plan(index, sampler.capabilities)
        try:
            trajectory = await sampler.sample(call, Unwatched())
        except ContextOverflowError as error:
            trajectory = call.trajectory("failed", error=str(error))
        filled = self.filled
        filled.tokens += trajectory.usage.completion_tokens
        if trajectory.status == "failed":
            filled.failed += 1
            reason = (trajectory.error or "no reason given")[:200]
            filled.reasons[reason] = filled.reasons.get(reason, 0) + 1
            return
        filled.made += 1
        self._directory.store.append(pool_key(problem.id, index), trajectory)
        await self._verify(problem, trajectory, index)

    async def _verify(self, problem: Problem, trajectory: Trajectory, index: int) -> None:
        if self._verifier is not None:
            self._count(await self._verifier.rule_trajectory(problem, trajectory, index=index))

    def _count(self, ruling: Ruling) -> None:
        self.filled.verified += 1
        self.filled.correct += ruling.reward
        self.filled.unverifiable += ruling.verdict == "unverifiable"


def missing_calls(directory: PoolDirectory, ids: Iterable[str], size: int) -> int:
    """How many trajectories a pool of ``size`` still lacks."""
    held = indexes_by_problem(directory.store)
    return sum(size - len([index for index in held.get(name, []) if index < size]) for name in ids)
