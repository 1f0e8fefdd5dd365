"""What a pool says of each problem: rewards, costs, and which of its answers are the same."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from pacore.coordination.agreement import Equivalence, agreement_classes
from pacore.data.pool import PoolRows
from pacore.data.record import Record
from pacore.data.truths import ChoiceTruth, IntegerTruth, MathTruth
from pacore.types import Trajectory
from pacore.verifiers.cache import CachedVerifier

NO_ANSWER = -1


class PoolVotes(Struct, frozen=True, kw_only=True):
    """One problem's pool, a value a trajectory: ``classes`` numbers equal answers (-1: no answer),
    ``rewards`` are in [0, 1], ``unverifiable`` says where there is no verdict; ``tokens`` generated,
    ``seconds`` it took.
    """

    problem: str
    classes: list[int]
    rewards: list[float]
    unverifiable: list[bool]
    truncated: list[bool]
    tokens: list[int]
    prompt_tokens: list[int]
    seconds: list[float]


async def count_votes(
    record: Record, rows: PoolRows, verifier: CachedVerifier, equivalence: Equivalence
) -> PoolVotes:
    """Read a problem's pool once: verdicts that it lacks are made, answers sorted into classes.

    Programs and texts that a judge looks at have no answer to vote on.
    """
    problem = record.problem()
    votable = isinstance(record.truth, (MathTruth, IntegerTruth, ChoiceTruth))
    texts: list[str] = []
    rulings = []
    trajectories: list[Trajectory] = []
    for trajectory in rows:
        complete = trajectory.status == "complete"
        texts.append(trajectory.content if complete and votable else "")
        rulings.append(await verifier.rule_trajectory(problem, trajectory))
        # The text is not needed any more, and there may be hundreds of them.
        trajectories.append(_bare(trajectory))
    return PoolVotes(
        problem=problem.id,
        classes=answer_classes(texts, equivalence),
        rewards=[ruling.reward for ruling in rulings],
        unverifiable=[ruling.verdict == "unverifiable" for ruling in rulings],
        truncated=[trajectory.status == "truncated" for trajectory in trajectories],
        tokens=[trajectory.usage.completion_tokens for trajectory in trajectories],
        prompt_tokens=[trajectory.usage.prompt_tokens for trajectory in trajectories],
        seconds=[round(max(0.0, t.ended_at - t.started_at), 3) for t in trajectories],
    )


def answer_classes(texts: Sequence[str], equivalence: Equivalence) -> list[int]:
    """The number of each text's class of equivalent answers; -1 without an answer.

    Texts with the very same answer are compared once.
    """
    answers = [equivalence.answer(text) if text else None for text in texts]
    distinct = list(dict.fromkeys(answer for answer in answers if answer is not None))
    numbers: dict[str, int] = {}
    for number, members in enumerate(agreement_classes(distinct, _Given(equivalence))):
        numbers.update((distinct[index], number) for index in members)
    return [NO_ANSWER if answer is None else numbers[answer] for answer in answers]


class _Given:
    """An equivalence over texts that are answers already."""

    def __init__(self, equivalence: Equivalence) -> None:
        self._equivalence = equivalence

    def answer(self, text: str) -> str | None:
        return text

    def equivalent(self, one: str, other: str) -> bool:
        return self._equivalence.equivalent(one, other)


def _bare(trajectory: Trajectory) -> Trajectory:
    return msgspec.structs.replace(trajectory, content="", reasoning="")
