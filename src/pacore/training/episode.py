"""What training acts in: episodes, the grades of what was made of them, and the environment of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Episode:
    """One synthesis round to act in: a prompt ``P(x, M)`` in tokens, and what its grader needs.

    ``message_accuracy`` is the share of right messages in M, ``majority`` whether their most frequent answer
    is right; ``None`` where that is not known, or there are no messages.
    """

    prompt: Sequence[int]
    task: Any
    message_accuracy: float | None = None
    majority: float | None = None


@dataclass(frozen=True, slots=True)
class Grade:
    """What was found of a trajectory: its reward in [0, 1]; ``None`` where it could not be verified.

    ``mentions`` counts its words that refer to references.
    """

    reward: float | None
    mentions: int = 0


class Environment(Protocol):
    """Where episodes come from, and who judges what was made of them."""

    def episodes(self, iteration: int) -> Sequence[Episode]:
        """The episodes of an iteration: a function of its number, so that a run can be resumed."""

    def grade(
        self, episodes: Sequence[Episode], tokens: Sequence[Sequence[Sequence[int]]]
    ) -> list[list[Grade]]:
        """The grades of each episode's trajectories, given as tokens without padding."""

    def replay(self, iteration: int) -> tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]:
        """Prompts and one trajectory each to keep the policy near; asked for where ``replay_weight`` > 0."""
