"""Running methods on a benchmark: every problem, every run, sharing all work that can be shared."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from pacore.admission import Admission, Job
from pacore.coordination.loop import coordinate
from pacore.coordination.rounds import RunContext
from pacore.data.pool import MessagePool
from pacore.data.record import Record
from pacore.evals.directory import EvalDirectory
from pacore.evals.methods import Method
from pacore.evals.outcome import Outcome, Synthesis, costs, cross_checks, majority_reward
from pacore.evals.votes import count_votes
from pacore.events import Event, RoundFinished, RoundStarted, RunFinished, TrajectoryFinished
from pacore.sampling.pool import PoolSampler
from pacore.sampling.sampler import Sampler
from pacore.seeds import derive_seed
from pacore.session import DEFAULT, Session
from pacore.traces.sharing import SharingSampler
from pacore.types import CompactMessage, Problem, Result, SamplingParams, Trajectory
from pacore.verifiers.cache import CachedVerifier
from pacore.verifiers.math.equivalence import MathEquivalence
from pacore.verifiers.verifier import Verifier

Told = Callable[[Outcome | None], None]
"""Is told each outcome, or ``None`` for a run that failed for want of an endpoint and will be tried again."""


class Evaluation:
    """Evaluates ``methods`` on ``records``, ``runs`` times each.

    Round 1 is drawn without replacement from ``pool`` where there is one, anew in each run; later rounds are
    generated once and shared by all methods that would make the same calls. ``failed`` counts runs that
    ended because calls failed: they leave no result and are made again in the next sitting.
    """

    def __init__(
        self,
        session: Session,
        directory: EvalDirectory,
        records: Sequence[Record],
        methods: Sequence[Method],
        *,
        runs: int,
        verifier: Verifier,
        pool: MessagePool | None = None,
        seed: int = 0,
        sampling: SamplingParams | None = None,
        told: Told | None = None,
    ) -> None:
        self._session = session
        self._directory = directory
        self._records = records
        self._methods = methods
        self._runs = runs
        self._pool = pool
        self._seed = seed
        self._sampling = sampling
        self._told = told or (lambda outcome: None)
        files = [directory.verdicts] if pool is None else [directory.verdicts, pool.verdicts]
        self._verifier = CachedVerifier(verifier, files)
        self._equivalence = MathEquivalence()
        self._shared: dict[str, Sampler] = {
            name: SharingSampler(sampler, directory.calls, model=model_of(session, sampler.name))
            for name, sampler in session.samplers.items()
        }
        self.failed = 0

    async def run(self) -> None:
        """Make every result that the directory lacks, then count the pool's votes.

        Raises EndpointRefusedError where an endpoint refuses the run as a whole.
        """
        await Admission(self._session).run(self._jobs())
        if self._pool is not None:
            self._directory.write_votes(
                [
                    await count_votes(
                        record.problem(), self._pool[record.id], self._verifier, self._equivalence
                    )
                    for record in self._records
                    if record.id in self._pool
                ]
            )

    def _jobs(self) -> Iterator[Job]:
        for run in range(self._runs):
            for record in self._records:
                for method in self._methods:
                    if method.schedule is None or (method.name, record.id, run) in self._directory.done:
                        continue
                    yield partial(self._evaluate, method, record, run)

    async def _evaluate(self, method: Method, record: Record, run: int, opened: Callable[[], None]) -> None:
        assert method.schedule is not None
        begun = time.monotonic()
        problem = record.problem()
        seen = _Seen()
        events = coordinate(problem, method.schedule, self._context(run))
        async with contextlib.aclosing(events):
            async for event in events:
                if isinstance(event, RoundStarted):
                    opened()
                seen.take(event)
        assert seen.result is not None, "every run ends with RunFinished"
        if seen.result.status == "failed" and any(t.status == "failed" for t in seen.trajectories.values()):
            self.failed += 1
            self._told(None)
            return
        outcome = await self._outcome(method, problem, run, seen, time.monotonic() - begun)
        self._directory.append(outcome)
        self._told(outcome)

    def _context(self, run: int) -> RunContext:
        seed = derive_seed(self._seed, "run", run)
        context = self._session.context(
            seed=seed, sampling=self._sampling, equivalence=self._equivalence, progress=False
        )
        samplers = dict(self._shared)
        if self._pool is not None:
            samplers[DEFAULT] = PoolSampler(self._pool, samplers[DEFAULT], seed=seed)
        return dataclasses.replace(context, samplers=samplers)

    async def _outcome(
        self, method: Method, problem: Problem, run: int, seen: _Seen, wall_s: float
    ) -> Outcome:
        result = seen.result
        assert result is not None
        verdict, reward, reason = "incorrect", 0.0, "no_answer: the run came to none"
        if result.answer is not None and result.answer.strip():
            ruling = await self._verifier.rule(problem, result.answer)
            verdict, reward, reason = ruling.verdict, ruling.reward, ruling.reason
        prices = self._session.samplers[DEFAULT].capabilities.prices
        measured = {
            "method": method.name,
            "problem": problem.id,
            "run": run,
            "status": result.status,
            "verdict": verdict,
            "reward": reward,
            "reason": reason,
            "ttc_tokens": result.ttc_tokens,
            "prompt_tokens": result.usage.prompt_tokens,
            "cached_tokens": result.usage.cached_tokens,
            "estimated": result.usage.estimated,
            "calls": len(seen.trajectories),
            "truncated": sum(t.status == "truncated" for t in seen.trajectories.values()),
            "lost": seen.lost,
            "wall_s": round(wall_s, 3),
            "agreement": result.agreement,
            "finish_reason": result.finish_reason,
            "answer": result.answer,
            **costs(result, seen.trajectories, prices),
        }
        synthesis = [await self._synthesis(problem, t, seen) for t in seen.synthesised()]
        return msgspec.convert({**measured, "synthesis": synthesis}, Outcome)

    async def _synthesis(self, problem: Problem, trajectory: Trajectory, seen: _Seen) -> Synthesis:
        sources = [(reference.round, reference.index) for reference in trajectory.references]
        texts = [seen.messages[source].text for source in sources]
        rewards = []
        for number, index in sources:
            ruling = await self._verifier.rule_trajectory(problem, seen.trajectories[number, index, "reason"])
            rewards.append(ruling.reward)
        own = await self._verifier.rule_trajectory(problem, trajectory)
        return Synthesis(
            round=trajectory.round,
            index=trajectory.index,
            read=len(sources),
            right=sum(reward >= 1.0 for reward in rewards),
            majority=majority_reward(texts, rewards, self._equivalence),
            reward=own.reward,
            cross_checks=cross_checks(trajectory.content + trajectory.reasoning),
        )


class _Seen:
    """What the events of one run left, without the reasoning of its trajectories where nobody reads it."""

    def __init__(self) -> None:
        self.trajectories: dict[tuple[int, int, str], Trajectory] = {}
        self.messages: dict[tuple[int, int], CompactMessage] = {}
        self.lost = 0
        self.result: Result | None = None

    def take(self, event: Event) -> None:
        if isinstance(event, TrajectoryFinished):
            trajectory = event.trajectory
            if not trajectory.references:
                trajectory = msgspec.structs.replace(trajectory, reasoning="")
            self.trajectories[trajectory.round, trajectory.index, trajectory.purpose] = trajectory
        elif isinstance(event, RoundFinished):
            self.messages.update(((m.round, m.index), m) for m in event.messages)
            self.lost += len(event.lost)
        elif isinstance(event, RunFinished):
            self.result = event.result

    def synthesised(self) -> list[Trajectory]:
        """The trajectories that read messages in order to answer."""
        return [
            trajectory
            for (_, _, purpose), trajectory in sorted(self.trajectories.items())
            if purpose == "reason" and trajectory.references and trajectory.status != "failed"
        ]


def model_of(session: Session, endpoint_name: str) -> str:
    """What names the model behind an endpoint in shared calls."""
    return session.models.get(endpoint_name, endpoint_name)
