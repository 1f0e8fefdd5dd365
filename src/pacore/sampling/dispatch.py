"""From a call to a trajectory that has certainly ended: slots, budget, retries and failure records."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import msgspec

from pacore.config import Retries
from pacore.errors import (
    BudgetExhaustedError,
    CallRejectedError,
    ContextOverflowError,
    EndpointRefusedError,
    TransientError,
)
from pacore.sampling.budget import Ledger
from pacore.sampling.sampler import Call, Capabilities, Sampler, Watcher
from pacore.sampling.slots import CallSlots
from pacore.seeds import derive_random, derive_seed
from pacore.types import Trajectory, Usage


class Dispatcher:
    """Makes each call through ``sampler`` under the limits of its endpoint and of the run.

    A call that fails for good comes back as a trajectory with status ``failed`` and the endpoint's
    words. Only what concerns more than this call is raised: EndpointRefusedError (the whole run is
    over) and ContextOverflowError (the prompt must change).
    """

    def __init__(
        self,
        sampler: Sampler,
        *,
        slots: CallSlots,
        run_slots: CallSlots,
        retries: Retries,
        ledger: Ledger,
        name: str = "",
    ) -> None:
        self._sampler = sampler
        self._slots = slots
        self._run_slots = run_slots
        self._retries = retries
        self._ledger = ledger
        self.name = name
        self._refusals: list[EndpointRefusedError] = []

    @property
    def capabilities(self) -> Capabilities:
        """What is known about the endpoint behind."""
        return self._sampler.capabilities

    async def sample(self, call: Call, watcher: Watcher) -> Trajectory:
        """Make the call, again where that can help, and return how it ended."""
        spent = Usage()
        for attempt in range(1, self._retries.attempts + 1):
            retry_after, generated = None, 0
            try:
                trajectory = await self._attempt(_reseeded(call, attempt), watcher, first=attempt == 1)
            except TransientError as error:
                reason, retry_after, generated = str(error), error.retry_after, error.generated_tokens
                spent += Usage(completion_tokens=generated, estimated=generated > 0)
                outcome = self._failed(call, f"{reason} (tried {attempt} times)", attempt, spent)
            except ContextOverflowError:
                raise
            except (BudgetExhaustedError, CallRejectedError) as error:
                return self._failed(call, str(error), attempt, spent)
            else:
                outcome = _merged(trajectory, spent, attempt)
                if trajectory.status != "empty":
                    return outcome
                reason = "an empty answer"
                spent += trajectory.usage
            if attempt < self._retries.attempts:
                wait = self._backoff(call, attempt, retry_after)
                watcher.retrying(attempt, reason, wait, generated)
                await asyncio.sleep(wait)
        return outcome

    async def _attempt(self, call: Call, watcher: Watcher, *, first: bool) -> Trajectory:
        priority = -call.round
        refused_before = len(self._refusals)
        await self._slots.acquire(priority)
        try:
            await self._run_slots.acquire(priority)
            try:
                if len(self._refusals) > refused_before:
                    # Another call was refused while this one waited: it is not sent any more.
                    raise self._refusals[-1]
                if first:
                    watcher.started()
                if not self._ledger.limits_calls:
                    return await self._sampler.sample(call, watcher)
                return await self._paid_attempt(call, watcher)
            except EndpointRefusedError as error:
                if error not in self._refusals:
                    self._refusals.append(error)
                raise
            finally:
                self._run_slots.release()
        finally:
            self._slots.release()

    async def _paid_attempt(self, call: Call, watcher: Watcher) -> Trajectory:
        cap = call.sampling.max_tokens
        if cap is None:
            # Only money is limited, and this endpoint takes none for what it generates.
            trajectory = await self._sampler.sample(call, watcher)
            self._ledger.record(trajectory.usage, self.capabilities.prices)
            return trajectory
        prompt_tokens = self.capabilities.prompt_tokens(call.prompt.chars)
        reservation = await self._ledger.reserve(cap, prompt_tokens, self.capabilities.prices)
        capped = msgspec.structs.replace(call.sampling, max_tokens=reservation.cap)
        meter = _Meter(watcher)
        used = Usage()
        try:
            trajectory = await self._sampler.sample(replace(call, sampling=capped), meter)
            used = trajectory.usage
            return trajectory
        except TransientError as error:
            used = Usage(prompt_tokens=prompt_tokens, completion_tokens=error.generated_tokens)
            raise
        except asyncio.CancelledError:
            generated = round(meter.chars / self.capabilities.chars_per_token)
            used = Usage(prompt_tokens=prompt_tokens, completion_tokens=generated)
            raise
        finally:
            reservation.settle(used)

    def _backoff(self, call: Call, attempt: int, retry_after: float | None) -> float:
        jitter = derive_random("jitter", call.seed, attempt).uniform(0.5, 1.0)
        if retry_after is not None:
            # Everyone told the same time would come back at once: spread them a little after it.
            return retry_after * (1 + 0.1 * (jitter - 0.5))
        return jitter * min(self._retries.cap_s, self._retries.base_s * 2.0 ** (attempt - 1))

    def _failed(self, call: Call, reason: str, attempts: int, spent: Usage) -> Trajectory:
        return call.trajectory("failed", error=reason, attempts=attempts, usage=spent, endpoint=self.name)


class _Meter:
    """Counts what a call generates, for calls whose end brings no usage."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self.chars = 0

    def started(self) -> None:
        self._watcher.started()

    def text(self, content: str, reasoning: str) -> None:
        self.chars += len(content) + len(reasoning)
        self._watcher.text(content, reasoning)

    def retrying(self, attempt: int, reason: str, wait_s: float, generated_tokens: int) -> None:
        self._watcher.retrying(attempt, reason, wait_s, generated_tokens)


def _reseeded(call: Call, attempt: int) -> Call:
    # The same seed would give the same empty answer again.
    return call if attempt == 1 else replace(call, seed=derive_seed(call.seed, "attempt", attempt))


def _merged(trajectory: Trajectory, spent: Usage, attempts: int) -> Trajectory:
    if attempts == 1:
        return trajectory
    return msgspec.structs.replace(trajectory, usage=trajectory.usage + spent, attempts=attempts)
