"""One round: its trajectories think at once, each event is handed on, and messages are what is left."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field

from pacore.config import Budget
from pacore.coordination.accounts import Accounts
from pacore.coordination.agreement import Equivalence, agreement_classes
from pacore.coordination.channel import CallWatcher, Channel
from pacore.coordination.compaction import Compaction, compaction_for, why_lost
from pacore.coordination.fit import learn_from_overflow
from pacore.coordination.planning import RoundPlan
from pacore.errors import ContextOverflowError
from pacore.events import Event, LostReference, TrajectoryFinished
from pacore.sampling.budget import Ledger
from pacore.sampling.sampler import Call, Prompt, Sampler
from pacore.seeds import derive_seed
from pacore.types import CompactMessage, Problem, RoundSpec, RunWarning, SamplingParams, Trajectory, Usage

_REFITS = 4
TOO_LONG = "the problem does not fit the model's window"
"""How the error of a call begins that no other attempt would make succeed."""


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """What a run of one problem works with.

    ``samplers`` are by endpoint name; ``default`` names the one for rounds that name none. With
    ``progress`` the stream has the passing events as well: TrajectoryStarted, TrajectoryProgress.
    """

    samplers: Mapping[str, Sampler]
    equivalence: Equivalence
    default: str = "default"
    seed: int = 0
    sampling: SamplingParams = field(default_factory=SamplingParams)
    budget: Budget = field(default_factory=Budget)
    ledger: Ledger = field(default_factory=lambda: Ledger(Budget()))
    compactions: Mapping[str, Compaction] = field(default_factory=dict)
    progress: bool = True


class RoundRun:
    """Runs the trajectories ``indexes`` of one round and collects what they leave.

    Read :meth:`events` to its end; then ``messages``, ``lost`` and the rest tell the outcome: ``last``
    is the trajectory that ended last, ``repeats`` counts those that say the same word for word.
    ``deadline`` is in event loop time: what still thinks then is dropped.
    """

    def __init__(
        self,
        context: RunContext,
        problem: Problem,
        spec: RoundSpec,
        plan: RoundPlan,
        *,
        indexes: Sequence[int],
        endpoints: Sequence[str],
        accounts: Accounts,
        deadline: float | None = None,
    ) -> None:
        self._context = context
        self._problem = problem
        self._spec = spec
        self.plan = plan
        self._endpoints = endpoints
        self._waiting = list(indexes)
        self._deadline = deadline
        self._accounts = accounts
        self._grace_end: float | None = None
        self._compaction = compaction_for(spec, context.compactions)
        self._channel = Channel()
        self._tasks: dict[asyncio.Task[None], CallWatcher] = {}
        self._first: dict[int, Trajectory] = {}
        self._messages: dict[int, CompactMessage] = {}
        self.lost: list[LostReference] = []
        self.last: Trajectory | None = None
        self.repeats = 0
        self._fingerprints: set[int] = set()
        self.timed_out = False
        self.agreed: CompactMessage | None = None

    @property
    def messages(self) -> list[CompactMessage]:
        """The messages that the round leaves so far, by index."""
        return [self._messages[index] for index in sorted(self._messages)]

    @property
    def skipped(self) -> int:
        """Trajectories that were never launched."""
        return len(self._waiting)

    def warnings(self, number: int) -> list[RunWarning]:
        """What a reader should know of a round that is over."""
        warnings = []
        if self.lost:
            reasons = Counter(f"{lost.status}: {lost.reason}" for lost in self.lost)
            told = "; ".join(f"{count} × {reason}" for reason, count in reasons.most_common(4))
            warnings.append(
                RunWarning(
                    "lost_references",
                    f"{len(self.lost)} of {self._spec.width} trajectories of round {number} "
                    f"left no message ({told})",
                )
            )
        if self.timed_out:
            warnings.append(
                RunWarning("deadline", f"time was up in round {number}; what still thought was dropped")
            )
        if self.repeats:
            warnings.append(
                RunWarning(
                    "identical_trajectories",
                    f"{self.repeats} of {self._spec.width} trajectories of round {number} repeat another "
                    "word for word; does the endpoint ignore the seed?",
                )
            )
        warnings.extend(self.trim_warnings(number))
        if self.agreed is not None and self.skipped:
            warnings.append(
                RunWarning(
                    "agreement_stop",
                    f"the messages agree: {self.skipped} calls of round {number} were saved",
                )
            )
        return warnings

    def trim_warnings(self, number: int) -> list[RunWarning]:
        """That references had to be made to fit the window, if they had to be."""
        if not self.plan.trims:
            return []
        told = "; ".join(self.plan.trims)
        text = f"the references of round {number} did not fit the window: {told}"
        return [RunWarning("references_trimmed", text)]

    async def events(self) -> AsyncGenerator[Event, None]:
        """Run; yields each event as it happens. Closing the generator stops every call."""
        try:
            self._launch_stage()
            while self._tasks or self._channel:
                try:
                    event = await self._channel.get(self._next_deadline())
                except TimeoutError:
                    self.timed_out = self._grace_end is None
                    break
                yield event
                if isinstance(event, TrajectoryFinished):
                    # The reader has it, and so on disk: only now does anything build on it.
                    self._take(event.trajectory)
            async for event in self._drop_unfinished():
                yield event
        finally:
            await self._cancel_tasks()

    def _next_deadline(self) -> float | None:
        times = [time for time in (self._deadline, self._grace_end) if time is not None]
        return min(times, default=None)

    def _launch_stage(self) -> None:
        stop = self._spec.stop
        count = len(self._waiting) if stop is None else min(stop.stage, len(self._waiting))
        for _ in range(count):
            index = self._waiting.pop(0)
            sampler = self._sampler(index)
            self._start(self.plan.plan(index, sampler.capabilities), sampler, replan=True)

    def _start(self, call: Call, sampler: Sampler, *, replan: bool) -> None:
        watcher = CallWatcher(self._channel, call, sampler.capabilities, progress=self._context.progress)
        task = asyncio.create_task(self._think(watcher, sampler, replan=replan))
        self._tasks[task] = watcher

    async def _think(self, watcher: CallWatcher, sampler: Sampler, *, replan: bool) -> None:
        try:
            trajectory = await self._sample_fitted(watcher, sampler, replan=replan)
        except Exception as error:
            # Raised again by the reader's next step: a failure that concerns the whole run.
            self._channel.put(error)
            return
        finally:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():
                self._tasks.pop(task, None)
        self._channel.put(TrajectoryFinished(trajectory=trajectory))

    async def _sample_fitted(self, watcher: CallWatcher, sampler: Sampler, *, replan: bool) -> Trajectory:
        """Sample; when the endpoint says that the prompt does not fit, trim by its own figures."""
        for _ in range(_REFITS):
            call = watcher.call
            try:
                return await sampler.sample(call, watcher)
            except ContextOverflowError as error:
                if not replan:
                    return _too_long(call, error)
                smaller = self.plan.plan(call.index, sampler.capabilities)
                if not _is_smaller(smaller, call):
                    # Nobody else has learned from the same refusal meanwhile.
                    learn_from_overflow(error, call.prompt.chars, sampler.capabilities)
                    smaller = self.plan.plan(call.index, sampler.capabilities)
                if not _is_smaller(smaller, call):
                    return _too_long(call, error)
                watcher.call = smaller
        return _too_long(watcher.call, ContextOverflowError("the prompt could not be made to fit"))

    def _take(self, trajectory: Trajectory) -> None:
        self._note(trajectory)
        if trajectory.purpose == "summarize":
            self._settle(self._first.pop(trajectory.index), trajectory)
        elif (chat := self._compaction.follow_up(self._problem, trajectory)) is not None:
            self._first[trajectory.index] = trajectory
            self._start(
                self._summary_call(trajectory, Prompt(chat)), self._sampler(trajectory.index), replan=False
            )
        else:
            self._settle(trajectory, None)

    def _note(self, trajectory: Trajectory) -> None:
        # Whole trajectories are not kept: with many problems open their reasoning would fill the memory.
        self.last = trajectory
        self._accounts.record(trajectory)
        if trajectory.status == "complete" and trajectory.purpose == "reason":
            fingerprint = hash((trajectory.reasoning, trajectory.content))
            self.repeats += fingerprint in self._fingerprints
            self._fingerprints.add(fingerprint)

    def _settle(self, trajectory: Trajectory, followed: Trajectory | None) -> None:
        text = self._compaction.message(trajectory, followed) if trajectory.status != "failed" else None
        if text is not None and text.strip():
            message = CompactMessage(trajectory.round, trajectory.index, text)
            self._messages[trajectory.index] = message
        else:
            self.lost.append(LostReference(trajectory.index, trajectory.status, why_lost(trajectory)))
        self._check_quorum()
        if not self._tasks and not self._channel and self._waiting:
            self._next_stage()

    def _check_quorum(self) -> None:
        quorum = self._spec.quorum
        if quorum is not None and self._grace_end is None and len(self._messages) >= quorum.count:
            self._grace_end = asyncio.get_running_loop().time() + quorum.grace_s

    def _next_stage(self) -> None:
        stop = self._spec.stop
        assert stop is not None, "only an agreement stop holds trajectories back"
        messages = self.messages
        classes = agreement_classes([message.text for message in messages], self._context.equivalence)
        if (
            classes
            and len(messages) >= min(stop.stage, self._spec.width)
            and (len(classes[0]) >= stop.share * len(messages))
        ):
            self.agreed = messages[classes[0][0]]
        else:
            self._launch_stage()

    async def _drop_unfinished(self) -> AsyncGenerator[Event, None]:
        """Close what is left after a quorum or deadline; its tokens are counted as estimates."""
        watchers = list(self._tasks.values())
        await self._cancel_tasks()
        while self._channel:
            event = await self._channel.get(None)
            yield event
            if isinstance(event, TrajectoryFinished):
                self._note(event.trajectory)
                self._settle_late(event.trajectory)
                watchers = [watcher for watcher in watchers if watcher.call.index != event.trajectory.index]
        for watcher in watchers:
            call = watcher.call
            generated = Usage(
                prompt_tokens=self._sampler(call.index).capabilities.prompt_tokens(call.prompt.chars)
                if watcher.started_call
                else 0,
                completion_tokens=watcher.tokens,
                estimated=True,
            )
            dropped = call.trajectory("dropped", usage=generated)
            yield TrajectoryFinished(trajectory=dropped)
            self._note(dropped)
            self._settle_late(dropped)

    def _settle_late(self, trajectory: Trajectory) -> None:
        # A round that is being closed starts nothing more: no summary, no further stage.
        first = self._first.pop(trajectory.index, None) if trajectory.purpose == "summarize" else trajectory
        if first is None:
            return
        text = self._compaction.message(first, None if first is trajectory else trajectory)
        if text is not None and text.strip() and first.status != "failed":
            self._messages[first.index] = CompactMessage(first.round, first.index, text)
        else:
            self.lost.append(LostReference(first.index, first.status, why_lost(first)))

    async def _cancel_tasks(self) -> None:
        tasks = list(self._tasks)
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _summary_call(self, trajectory: Trajectory, prompt: Prompt) -> Call:
        return Call(
            problem_id=self._problem.id,
            round=trajectory.round,
            index=trajectory.index,
            purpose="summarize",
            prompt=prompt,
            sampling=trajectory.sampling,
            seed=derive_seed(
                self._context.seed, self._problem.id, trajectory.round, trajectory.index, "summary"
            ),
        )

    def _sampler(self, index: int) -> Sampler:
        return self._context.samplers[self._endpoints[index % len(self._endpoints)]]


def _is_smaller(call: Call, other: Call) -> bool:
    if call.prompt.chars != other.prompt.chars:
        return call.prompt.chars < other.prompt.chars
    return (call.sampling.max_tokens or 0) < (other.sampling.max_tokens or 0)


def _too_long(call: Call, error: ContextOverflowError) -> Trajectory:
    return call.trajectory(
        "failed",
        error=f"{TOO_LONG} ({error}); shorten it, or serve the model with a larger window",
    )
