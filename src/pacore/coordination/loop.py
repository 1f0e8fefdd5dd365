"""The one loop: every method is a schedule that it runs, and everything it does is an event.

It is an async generator. Between two events it waits for its reader, so what the reader has put on
disk is there before anything builds on it; and closing the generator closes every call in flight.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec

from pacore.coordination.accounts import Accounts
from pacore.coordination.agreement import agreement_classes, agreement_of
from pacore.coordination.compaction import compaction_for
from pacore.coordination.planning import RoundPlan
from pacore.coordination.rounds import RoundRun, RunContext
from pacore.coordination.schedules import check_schedule
from pacore.errors import EndpointRefusedError
from pacore.events import (
    Event,
    RoundFinished,
    RoundStarted,
    RunFinished,
    RunStarted,
    Warned,
)
from pacore.sampling.budget import MIN_CAP
from pacore.sampling.sampler import Prompt
from pacore.seeds import derive_random
from pacore.types import (
    CompactMessage,
    Problem,
    Purpose,
    Result,
    RoundSpec,
    RunStatus,
    RunWarning,
    SamplingParams,
    Schedule,
    Trajectory,
)
from pacore.version import __version__

_BEST = re.compile(r"\bbest\W{0,8}(\d+)", re.IGNORECASE)


def coordinate(problem: Problem, schedule: Schedule, context: RunContext) -> AsyncGenerator[Event, None]:
    """Run ``schedule`` on ``problem``; the last event is RunFinished with the Result.

    Raises ConfigError for a schedule that does not fit together, and while it runs EndpointRefusedError
    when an endpoint refuses the run as a whole. Failures of single calls are in the events and in the
    result.
    """
    check_schedule(schedule)
    for spec in schedule.rounds:
        compaction_for(spec, context.compactions)
    return _Run(problem, schedule, context).events()


class _Run:
    """The state of one run: the messages at hand, and the accounts."""

    def __init__(self, problem: Problem, schedule: Schedule, context: RunContext) -> None:
        self.problem = problem
        self.schedule = schedule
        self.context = context
        self.accounts = Accounts()
        self.messages: list[CompactMessage] = []
        self.agreement: float | None = None
        self.degraded = False
        self.calls_left = schedule.planned_calls
        self.failure: str | None = None
        self.agreed: CompactMessage | None = None
        self.round_deadline: float | None = None
        self.final_deadline: float | None = None
        self._outbox: list[Event] = []

    async def events(self) -> AsyncGenerator[Event, None]:
        """The whole run."""
        context = self.context
        self._set_deadlines()
        try:
            yield RunStarted(
                problem=self.problem,
                schedule=self.schedule,
                seed=context.seed,
                started_at=time.time(),
                version=__version__,
            )
            if context.ledger.limits_calls and self.schedule.finish != "vote":
                cap = (self.schedule.final.sampling or context.sampling).max_tokens
                context.ledger.set_aside(self.problem.id, cap, self.schedule.planned_calls)
            async with aclosing(self._parallel_rounds()) as events:
                async for event in events:
                    yield event
            async with aclosing(self._finish()) as events:
                async for event in events:
                    yield event
        finally:
            context.ledger.give_back(self.problem.id)

    def _set_deadlines(self) -> None:
        seconds = self.context.budget.seconds
        if seconds is not None:
            now = asyncio.get_running_loop().time()
            self.final_deadline = now + seconds
            self.round_deadline = now + seconds * (1 - self.context.budget.final_share)

    async def _parallel_rounds(self) -> AsyncGenerator[Event, None]:
        """The schedule's rounds, until they are done, agree, fail, or time or money is up."""
        for number, spec in enumerate(self.schedule.rounds, start=1):
            sampling = self._afforded(spec)
            if sampling is None:
                left_out = f"round {number} and later ones were left out"
                self._warn("budget", f"{left_out}: {self.context.ledger.describe()}")
                self.degraded = True
                return
            round_run = self._round(spec, number, sampling)
            yield RoundStarted(round=number, width=spec.width)
            async with aclosing(round_run.events()) as events:
                async for event in events:
                    yield event
            yield self._round_finished(round_run, number)
            self._accept(round_run, spec, number)
            for event in self._take_outbox():
                yield event
            if self.failure is not None or self.agreed is not None or round_run.timed_out:
                return

    def _round(self, spec: RoundSpec, number: int, sampling: SamplingParams) -> RoundRun:
        return RoundRun(
            self.context,
            self.problem,
            spec,
            self._plan(spec, number, sampling, "reason"),
            indexes=range(spec.width),
            endpoints=spec.endpoints or (self.context.default,),
            deadline=self.round_deadline,
            accounts=self.accounts,
        )

    def _round_finished(self, round_run: RoundRun, number: int) -> RoundFinished:
        texts = [message.text for message in round_run.messages]
        self.agreement = agreement_of(agreement_classes(texts, self.context.equivalence), len(texts))
        return RoundFinished(
            round=number,
            messages=tuple(round_run.messages),
            lost=tuple(round_run.lost),
            skipped=round_run.skipped,
            agreement=self.agreement,
        )

    def _accept(self, round_run: RoundRun, spec: RoundSpec, number: int) -> None:
        """Take over the round's messages; warn of what was lost, and give up where too little is left."""
        self.calls_left -= spec.width * (2 if spec.compact == "summary" else 1)
        for warning in round_run.warnings(number):
            self._warn(warning.code, warning.text)
        self.agreed = round_run.agreed
        found = len(round_run.messages)
        if found < spec.needed and self.agreed is None:
            reasons = "; ".join(dict.fromkeys(lost.reason for lost in round_run.lost))
            text = f"round {number} left {found} messages of the {spec.needed} needed: {reasons}"
            # A ceiling that the user set is a wish for the best answer within it, not for none.
            limited = self.context.ledger.limits_calls
            cut_by_budget = limited and any(lost.status == "truncated" for lost in round_run.lost)
            forced = round_run.timed_out or self.context.ledger.refused or cut_by_budget
            nothing_at_hand = not found and not (forced and self.messages)
            if nothing_at_hand or (self.schedule.on_partial == "fail" and not forced):
                self.failure = text
                return
            self._warn("too_few_messages", text)
            if limited:
                self._warn(
                    "budget", f"the budget left calls out or cut them short: {self.context.ledger.describe()}"
                )
            self.degraded = True
        if found:
            self.messages = round_run.messages

    async def _finish(self) -> AsyncGenerator[Event, None]:
        """From the last messages to the answer."""
        if self.failure is not None:
            outcome = self._finished("failed", None, self.failure)
        elif self.agreed is not None:
            outcome = self._finished("complete", self.agreed.text, None)
        elif self.schedule.finish == "vote":
            outcome = self._voted()
        else:
            outcome = []
            async with aclosing(self._last_round()) as events:
                async for event in events:
                    yield event
        for event in outcome:
            yield event

    async def _last_round(self) -> AsyncGenerator[Event, None]:
        """The finish's own call: tried again, then elsewhere, then replaced by the best message."""
        purpose: Purpose = "select" if self.schedule.finish == "select" else "reason"
        number = len(self.schedule.rounds) + 1
        yield RoundStarted(round=number, width=1, purpose=purpose)
        last: Trajectory | None = None
        tried = ""
        for attempt, endpoint in enumerate(self._final_endpoints()):
            if last is not None and last.status == "failed" and endpoint == tried:
                # The dispatcher has already tried this endpoint as often as its settings allow.
                continue
            tried = endpoint
            round_run = self._final_run(number, purpose, attempt, endpoint)
            try:
                async with aclosing(round_run.events()) as events:
                    async for event in events:
                        yield event
            except EndpointRefusedError as error:
                if endpoint != self.schedule.fallback:
                    raise
                # What the run has come to must not be lost to an endpoint that was to save it.
                self._warn("fallback_endpoint", f"the fallback endpoint {endpoint!r} refused: {error}")
                break
            last = round_run.last
            assert last is not None, "a round ends with a trajectory, if only a dropped one"
            for warning in round_run.trim_warnings(number):
                self._warn(warning.code, warning.text)
            if (answer := self._final_answer(last, purpose)) is not None:
                if endpoint == self.schedule.fallback:
                    self._warn(
                        "fallback_endpoint", f"the last round was answered by the endpoint {endpoint!r}"
                    )
                yield RoundFinished(round=number, messages=tuple(round_run.messages), lost=())
                if attempt and endpoint != self.schedule.fallback:
                    self._warn(
                        "last_round_retried", f"the last round gave an answer at attempt {attempt + 1} only"
                    )
                for event in self._finished("complete", answer, None, final=last):
                    yield event
                return
            if round_run.timed_out:
                break
        assert last is not None, "there is always one endpoint to try"
        lost = self.accounts.lost_final(last)
        yield RoundFinished(round=number, messages=(), lost=(lost,))
        for event in self._without_last_round(last, f"the last round gave no answer: {lost.reason}"):
            yield event

    def _final_endpoints(self) -> list[str]:
        own = self.schedule.final.endpoints or (self.context.default,)
        tries = [own[attempt % len(own)] for attempt in range(self.schedule.final_attempts)]
        return [*tries, self.schedule.fallback] if self.schedule.fallback is not None else tries

    def _final_run(self, number: int, purpose: Purpose, attempt: int, endpoint: str) -> RoundRun:
        spec = self.schedule.final
        sampling = self._afforded(spec, final=True) or self.context.sampling
        return RoundRun(
            self.context,
            self.problem,
            spec,
            self._plan(spec, number, sampling, purpose),
            indexes=(attempt,),
            endpoints=(endpoint,),
            deadline=self.final_deadline,
            accounts=self.accounts,
        )

    def _final_answer(self, trajectory: Trajectory, purpose: Purpose) -> str | None:
        if trajectory.status != "complete":
            return None
        if purpose == "reason":
            return trajectory.content
        choices = _BEST.findall(trajectory.content)
        place = int(choices[-1]) - 1 if choices else -1
        if not 0 <= place < len(trajectory.references):
            return None
        chosen = trajectory.references[place]
        return next(m.text for m in self.messages if (m.round, m.index) == (chosen.round, chosen.index))

    def _without_last_round(self, last: Trajectory, reason: str) -> list[Event]:
        self.degraded = True
        if self.messages:
            self._warn("last_round_failed", f"{reason}; the answer is the best message of the round before")
            return self._finished("degraded", self._best_message().text, None)
        if last.content.strip():
            self._warn(last.status, reason.replace("gave no answer", "ended early"))
            return self._finished("degraded", last.content, None, final=last)
        return self._finished("failed", None, reason)

    def _voted(self) -> list[Event]:
        if not self.messages:
            return self._finished("failed", None, "there is no message to vote on")
        return self._finished("complete", self._best_message().text, None)

    def _best_message(self) -> CompactMessage:
        """A message of the most frequent answer; equally frequent ones are drawn by the run's seed."""
        classes = agreement_classes([message.text for message in self.messages], self.context.equivalence)
        draw = derive_random("vote", self.context.seed, self.problem.id)
        if not classes:
            self._warn("no_agreement", "no final answer could be read in the messages; one was drawn")
            return draw.choice(self.messages)
        top = [members for members in classes if len(members) == len(classes[0])]
        return self.messages[draw.choice(top)[0]]

    def _plan(self, spec: RoundSpec, number: int, sampling: SamplingParams, purpose: Purpose) -> RoundPlan:
        return RoundPlan(
            self.problem,
            spec,
            number,
            self.messages,
            purpose=purpose,
            sampling=sampling,
            seed=self.context.seed,
        )

    def _afforded(self, spec: RoundSpec, *, final: bool = False) -> SamplingParams | None:
        """The round's sampling with a cap that the budget can pay; ``None`` where it pays for no call."""
        sampling = spec.sampling or self.context.sampling
        ledger = self.context.ledger
        if not ledger.limits_calls:
            return sampling
        name = (spec.endpoints or (self.context.default,))[0]
        sampler = self.context.samplers[name]
        chars = Prompt(self.problem.messages).chars + sum(len(message.text) for message in self.messages)
        tokens = sampler.capabilities.prompt_tokens(chars)
        prices = sampler.capabilities.prices
        if final:
            share = ledger.final_share(self.problem.id, tokens, prices)
        else:
            last_call = 0 if self.schedule.finish == "vote" else 1
            share = ledger.share(max(1, self.calls_left - last_call), tokens, prices)
        if share is None:
            # Only money limits, and this endpoint costs nothing.
            return sampling
        if share < MIN_CAP and not final:
            return None
        cap = (
            max(MIN_CAP, share)
            if sampling.max_tokens is None
            else min(sampling.max_tokens, max(MIN_CAP, share))
        )
        return msgspec.structs.replace(sampling, max_tokens=cap)

    def _warn(self, code: str, text: str) -> None:
        warning = RunWarning(code, text)
        self.accounts.warnings.append(warning)
        self._outbox.append(Warned(warning=warning))

    def _take_outbox(self) -> Sequence[Event]:
        events, self._outbox = self._outbox, []
        return events

    def _finished(
        self, status: RunStatus, answer: str | None, failure: str | None, *, final: Trajectory | None = None
    ) -> list[Event]:
        if failure is not None:
            self._warn("failed", failure)
        if status == "complete" and self.degraded:
            status = "degraded"
        result: Result = self.accounts.result(
            self.problem, status=status, answer=answer, final=final, agreement=self.agreement
        )
        return [*self._take_outbox(), RunFinished(result=result)]
