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
from pacore.coordination.rounds import TOO_LONG, RunContext
from pacore.data.pool import MessagePool
from pacore.data.record import Record
from pacore.evals.directory import EvalDirectory
from pacore.evals.methods import Method
from pacore.evals.outcome import (
    Outcome,
    Synthesis,
    critical_seconds,
    cross_checks,
    dollars,
    majority_reward,
)
from pacore.evals.votes import count_votes
from pacore.events import Event, RoundFinished, RoundStarted, RunFinished, TrajectoryFinished
from pacore.sampling.pool import PoolSampler
from pacore.sampling.sampler import Sampler
from pacore.seeds import derive_seed
from pacore.session import DEFAULT, Session
from pacore.traces.sharing import SharedCalls, SharingSampler
from pacore.types import CompactMessage, Problem, Result, SamplingParams, Trajectory
from pacore.verifiers.cache import CachedVerifier, Ruling
from pacore.verifiers.math.equivalence import MathEquivalence
from pacore.verifiers.verifier import Verifier

Told = Callable[[Outcome | None], None]
"""Is told each outcome, or ``None`` for a run that left none and is to be made again."""


class Evaluation:
    """Evaluates ``methods`` on ``records``, ``runs`` times each.

    Round 1 is drawn without replacement from ``pool`` where there is one, anew in each run; later rounds are
    generated once and shared by all methods that would make the same calls. ``failed`` counts runs in which
    calls failed, a budget ran out or a judge was down: they leave no result and are made again in the next
    sitting, unless ``accept_failures`` takes them as they came out.
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
        accept_failures: bool = False,
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
        self._accept_failures = accept_failures
        self._told = told or (lambda outcome: None)
        files = [directory.verdicts] if pool is None else [directory.verdicts, pool.verdicts]
        self._verifier = CachedVerifier(verifier, files)
        self._equivalence = MathEquivalence()
        self._shared = _shared_samplers(session, SharedCalls(directory.calls))
        self.failed = 0

    async def run(self) -> None:
        """Make every result that the directory lacks, then count the pool's votes.

        Raises EndpointRefusedError where an endpoint refuses the run as a whole.
        """
        await Admission(self._session).run(self._jobs())
        if self._pool is not None:
            self._directory.write_votes(
                [
                    await count_votes(record, self._pool[record.id], self._verifier, self._equivalence)
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
        schedule = method.schedule
        if not schedule.rounds:
            # One call is one call: another try would make it another method.
            schedule = msgspec.structs.replace(schedule, final_attempts=1)
        events = coordinate(problem, schedule, self._context(run))
        async with contextlib.aclosing(events):
            async for event in events:
                if isinstance(event, RoundStarted):
                    opened()
                seen.take(event)
        assert seen.result is not None, "every run ends with RunFinished"
        outcome = None
        if self._accept_failures or not seen.suffered():
            outcome = await self._outcome(method, problem, run, seen, time.monotonic() - begun)
        if outcome is None:
            self.failed += 1
        else:
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
    ) -> Outcome | None:
        """The outcome, or ``None`` where it could not be verified just now."""
        result = seen.result
        assert result is not None
        ruling = await self._final_ruling(problem, seen)
        synthesis = [await self._synthesis(problem, t, seen) for t in seen.synthesised()]
        if not self._accept_failures and (ruling.transient or None in synthesis):
            return None
        measured = {
            "method": method.name,
            "problem": problem.id,
            "run": run,
            "status": result.status,
            "verdict": ruling.verdict,
            "reward": ruling.reward,
            "reason": ruling.reason,
            "ttc_tokens": result.ttc_tokens,
            "prompt_tokens": result.usage.prompt_tokens,
            "cached_tokens": result.usage.cached_tokens,
            "estimated": result.usage.estimated,
            "calls": len(seen.trajectories),
            "truncated": sum(t.status == "truncated" for t in seen.trajectories.values()),
            "lost": seen.lost,
            "wall_s": round(wall_s, 3),
            "critical_s": critical_seconds(seen.trajectories),
            "usd": self._dollars(seen),
            "agreement": result.agreement,
            "finish_reason": result.finish_reason,
            "answer": result.answer,
        }
        return msgspec.convert({**measured, "synthesis": [s for s in synthesis if s is not None]}, Outcome)

    async def _final_ruling(self, problem: Problem, seen: _Seen) -> Ruling:
        """The verdict on the answer. One that was cut off is none, here as in a pool."""
        answer = seen.result.answer if seen.result is not None else None
        if answer is None or not answer.strip():
            return Ruling(problem=problem.id, text="", verdict="incorrect", reason="no_answer")
        said = [t for t in seen.trajectories.values() if t.content == answer]
        if said and all(t.status != "complete" for t in said):
            return await self._verifier.rule_trajectory(problem, said[-1])
        return await self._verifier.rule(problem, answer)

    def _dollars(self, seen: _Seen) -> float | None:
        """What the run costs by the prices of each trajectory's endpoint; ``None`` where one has none."""
        known = {sampler.name: sampler.capabilities.prices for sampler in self._session.samplers.values()}
        default = self._session.samplers[DEFAULT].capabilities.prices
        spent = [dollars(t.usage, known.get(t.endpoint, default)) for t in seen.trajectories.values()]
        costs = [cost for cost in spent if cost is not None]
        return sum(costs) if costs and len(costs) == len(spent) else None

    async def _synthesis(self, problem: Problem, trajectory: Trajectory, seen: _Seen) -> Synthesis | None:
        """How a trajectory made use of what it read; ``None`` where that cannot be verified just now."""
        sources = [(reference.round, reference.index) for reference in trajectory.references]
        texts = [seen.messages[source].text for source in sources]
        rulings = [
            await self._message_ruling(problem, text, seen.trajectories[number, index, "reason"])
            for text, (number, index) in zip(texts, sources, strict=True)
        ]
        own = await self._verifier.rule_trajectory(problem, trajectory)
        if own.transient or any(ruling.transient for ruling in rulings):
            return None
        rewards = [ruling.reward for ruling in rulings]
        return Synthesis(
            round=trajectory.round,
            index=trajectory.index,
            read=len(sources),
            right=sum(reward >= 1.0 for reward in rewards),
            majority=majority_reward(texts, rewards, self._equivalence),
            reward=own.reward,
            cross_checks=cross_checks(trajectory.content + trajectory.reasoning),
        )

    async def _message_ruling(self, problem: Problem, text: str, source: Trajectory) -> Ruling:
        """The verdict on a message as it was read: its trajectory's, unless compaction changed the words."""
        if text == source.content:
            return await self._verifier.rule_trajectory(problem, source)
        return await self._verifier.rule(problem, text)


def _shared_samplers(session: Session, calls: SharedCalls) -> dict[str, Sampler]:
    """The session's samplers with shared calls; an endpoint under two names is still one."""
    made: dict[int, Sampler] = {}
    for sampler in session.samplers.values():
        model = f"{sampler.name}/{session.models.get(sampler.name, '')}"
        made.setdefault(id(sampler), SharingSampler(sampler, calls, model=model))
    return {name: made[id(sampler)] for name, sampler in session.samplers.items()}


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

    def suffered(self) -> bool:
        """Whether it would have gone otherwise with an endpoint that always answers, or a larger budget."""
        failed = (t.error or "" for t in self.trajectories.values() if t.status == "failed")
        warnings = self.result.warnings if self.result is not None else ()
        return any(not error.startswith(TOO_LONG) for error in failed) or any(
            warning.code in ("budget", "deadline") for warning in warnings
        )

    def synthesised(self) -> list[Trajectory]:
        """The trajectories that read messages in order to answer."""
        return [
            trajectory
            for (_, _, purpose), trajectory in sorted(self.trajectories.items())
            if purpose == "reason" and trajectory.references and trajectory.status != "failed"
        ]
