"""What one run of one method on one problem came to: its verdict, its costs, and how it synthesised."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from pacore.config import Prices
from pacore.coordination.agreement import Equivalence, agreement_classes
from pacore.types import Trajectory, Usage

_CROSS_CHECKS = re.compile(r"references?\b|参考|\bref\.? ?\d", re.IGNORECASE)


class Synthesis(Struct, frozen=True, kw_only=True, array_like=True):
    """One trajectory that read messages: ``right`` of its ``read`` messages were correct.

    ``majority`` is the probability that a vote over what it read would be correct, ties broken at random;
    ``cross_checks`` counts words that refer to the references (the paper's measure).
    """

    round: int
    index: int
    read: int
    right: int
    majority: float
    reward: float
    cross_checks: int


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of ``results.jsonl``. ``ttc_tokens`` counts all trajectories, drawn ones included.

    ``critical_s`` is the time along the slowest trajectory of each round: what the run takes where nothing
    queues. ``wall_s`` is what this sitting needed, which cached calls make short.
    """

    method: str
    problem: str
    run: int
    status: Literal["complete", "degraded", "failed"]
    verdict: Literal["correct", "incorrect", "unverifiable"]
    reward: float
    reason: str = ""
    ttc_tokens: int
    prompt_tokens: int
    cached_tokens: int = 0
    estimated: bool = False
    calls: int
    truncated: int = 0
    lost: int = 0
    critical_s: float = 0.0
    wall_s: float = 0.0
    usd: float | None = None
    agreement: float | None = None
    finish_reason: str | None = None
    synthesis: tuple[Synthesis, ...] = ()
    answer: str | None = None


def cross_checks(text: str) -> int:
    """How often ``text`` refers to the references: "reference", "参考", "Ref 3"."""
    return len(_CROSS_CHECKS.findall(text))


def majority_reward(texts: Sequence[str], rewards: Sequence[float], equivalence: Equivalence) -> float:
    """The expected reward of the most frequent answer; equally frequent ones are as likely as each other.

    0 where no text has an answer.
    """
    classes = agreement_classes(texts, equivalence)
    if not classes:
        return 0.0
    largest = [members for members in classes if len(members) == len(classes[0])]
    means = [sum(rewards[index] for index in members) / len(members) for members in largest]
    return sum(means) / len(means)


def critical_seconds(trajectories: Mapping[tuple[int, int, str], Trajectory]) -> float:
    """The time along the slowest trajectory of each round: what a run takes where nothing queues."""
    slowest: dict[tuple[int, str], float] = {}
    for (number, _, purpose), trajectory in trajectories.items():
        seconds = max(0.0, trajectory.ended_at - trajectory.started_at)
        slowest[number, purpose] = max(slowest.get((number, purpose), 0.0), seconds)
    return round(sum(slowest.values()), 3)


def dollars(usage: Usage, prices: Prices | None) -> float | None:
    """What tokens cost; ``None`` without prices."""
    if prices is None:
        return None
    cached = prices.cached if prices.cached is not None else prices.prompt
    return (
        (usage.prompt_tokens - usage.cached_tokens) * prices.prompt
        + usage.cached_tokens * cached
        + usage.completion_tokens * prices.completion
    ) / 1e6
