"""What is worth training on: problems that are neither hopeless nor solved already.

Stage 1 looks at the messages of a pool: 0 < mean accuracy < 9/24 for math, < 15/24 for code. Stage 2 looks
at the synthesis of a stage 1 checkpoint: 0 < accuracy < 1.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator

import msgspec

from pacore.coordination.prompt import synthesis_messages
from pacore.data.episodes import draw_messages
from pacore.data.pool import MessagePool
from pacore.data.record import Record, Response
from pacore.data.steps.concurrent import in_order
from pacore.data.steps.step import Fallen
from pacore.errors import ContextOverflowError
from pacore.sampling.sampler import Call, Prompt, Sampler, Unwatched
from pacore.seeds import derive_seed
from pacore.types import SamplingParams
from pacore.verifiers.cache import CachedVerifier

MATH_BELOW = 9 / 24
CODE_BELOW = 15 / 24


class MessageAccuracyFilter:
    """Keeps problems whose messages are right now and then, and puts the messages into the record.

    The mean reward of all trajectories of a problem, those without a conclusion counted as wrong, must lie
    strictly between 0 and ``math_below`` or ``code_below``. With ``pool=None`` the records bring their
    messages and rewards themselves.
    """

    def __init__(
        self, pool: MessagePool | None, *, math_below: float = MATH_BELOW, code_below: float = CODE_BELOW
    ) -> None:
        self._pool = pool
        self._math_below = math_below
        self._code_below = code_below

    def __call__(self, records: Iterable[Record]) -> Iterator[Record | Fallen]:
        """Each record with its messages, or its accuracy where that is too low or too high."""
        for record in records:
            yield self._one(record)

    def _one(self, record: Record) -> Record | Fallen:
        if self._pool is None:
            messages = record.pool
            rewards = [response.reward for response in messages if response.reward is not None]
            accuracy = sum(rewards) / len(rewards) if rewards else None
        elif record.id in self._pool:
            messages = tuple(self._pool.responses(record.id))
            accuracy = self._pool.accuracy(record.id)
        else:
            return Fallen(id=record.id, reason="no_pool")
        if accuracy is None:
            return Fallen(id=record.id, reason="not_verified", detail="no message of it has a verdict")
        below = self._code_below if record.is_code else self._math_below
        detail = f"{accuracy:.3f} of {len(messages)} messages"
        if accuracy <= 0:
            return Fallen(id=record.id, reason="never_right", detail=detail)
        if accuracy >= below:
            return Fallen(id=record.id, reason="too_easy", detail=f"{detail}, wanted below {below:.3f}")
        if not messages:
            return Fallen(id=record.id, reason="no_message", detail=detail)
        return _with(record, messages, message_accuracy=accuracy)


class SynthesisAccuracyFilter:
    """Keeps problems that a checkpoint synthesises rightly now and then: strictly between 0 and 1.

    Of each problem ``episodes`` message sets are drawn, as training draws them, and each is synthesised
    once by ``sampler``.
    """

    def __init__(
        self,
        sampler: Sampler,
        verifier: CachedVerifier,
        *,
        episodes: int = 16,
        low: int = 16,
        high: int = 24,
        sampling: SamplingParams | None = None,
        seed: int = 0,
        limit: int = 64,
    ) -> None:
        self._sampler = sampler
        self._verifier = verifier
        self._episodes = episodes
        self._low, self._high = low, high
        self._sampling = sampling or SamplingParams()
        self._seed = seed
        self._limit = max(1, limit // episodes + 1)

    def __call__(self, records: Iterable[Record]) -> AsyncIterator[Record | Fallen]:
        """Each record, or its accuracy where that is 0 or 1."""
        return in_order(self._one, records, limit=self._limit)

    async def _one(self, record: Record) -> Record | Fallen:
        if not record.pool:
            return Fallen(id=record.id, reason="no_message", detail="nothing to synthesise from")
        rewards: list[float] = []
        failed = 0
        async for reward in in_order(
            lambda number: self._reward(record, number), range(self._episodes), limit=self._episodes
        ):
            if reward is None:
                failed += 1
            else:
                rewards.append(reward)
        if not rewards:
            return Fallen(id=record.id, reason="calls_failed", detail=f"all {failed}")
        accuracy = sum(rewards) / len(rewards)
        detail = f"{accuracy:.3f} of {len(rewards)} syntheses" + (
            f", {failed} calls failed" if failed else ""
        )
        if accuracy <= 0:
            return Fallen(id=record.id, reason="never_right", detail=detail)
        if accuracy >= 1:
            return Fallen(id=record.id, reason="always_right", detail=detail)
        return _with(record, record.pool, synthesis_accuracy=accuracy)

    async def _reward(self, record: Record, number: int) -> float | None:
        """The reward of one synthesis; ``None`` where the call failed, which says nothing of the problem."""
        texts = draw_messages(record, number, low=self._low, high=self._high, seed=self._seed)
        problem = record.problem()
        call = Call(
            problem_id=record.id,
            round=2,
            index=number,
            prompt=Prompt(synthesis_messages(problem, texts)),
            sampling=self._sampling,
            seed=derive_seed(self._seed, "stage2", record.id, number),
        )
        try:
            trajectory = await self._sampler.sample(call, Unwatched())
        except ContextOverflowError:
            return None
        if trajectory.status == "failed":
            return None
        return (await self._verifier.rule_trajectory(problem, trajectory)).reward


def _with(record: Record, pool: tuple[Response, ...], **measured: float) -> Record:
    return msgspec.structs.replace(record, pool=pool, extra={**record.extra, **measured})
