"""A task whose optimum is known: say what the prompt asks for, then end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pacore.seeds import derive_random
from pacore.training.episode import Episode, Grade
from pacore.training.miniature.transformer import Transformer, TransformerShape
from pacore.training.ppo import PPO, PPOSettings

VOCABULARY, ASK, END = 8, 6, 7


@dataclass(frozen=True, kw_only=True)
class Bandit:
    """Prompts of one to three tokens and the question; right is the last of them, once, and the end."""

    prompts: int = 8
    seed: int = 0
    verifiable: bool = True

    def episodes(self, iteration: int) -> list[Episode]:
        """Random prompts."""
        draw = derive_random("bandit", self.seed, iteration)
        rows = [[draw.randrange(4) for _ in range(draw.randint(1, 3))] for _ in range(self.prompts)]
        return [Episode([*row, ASK], row[-1], message_accuracy=0.0, majority=0.0) for row in rows]

    def grade(
        self, episodes: Sequence[Episode], tokens: Sequence[Sequence[Sequence[int]]]
    ) -> list[list[Grade]]:
        """1 for the right token and the end, else 0."""
        return [
            [Grade(self._reward(episode.task, row) if self.verifiable else None) for row in rows]
            for episode, rows in zip(episodes, tokens, strict=True)
        ]

    def _reward(self, wanted: int, row: Sequence[int]) -> float:
        return float(list(row) == [wanted, END])

    def replay(self, iteration: int) -> Any:
        """One prompt with its right answer."""
        return [[iteration % 4]], [[iteration % 4, END]]


def a_network(outputs: int, seed: int) -> Transformer:
    """A model small enough for tests."""
    shape = TransformerShape(vocabulary=VOCABULARY, outputs=outputs, width=32, layers=2, heads=2)
    return Transformer(shape, torch.Generator().manual_seed(seed))


def a_trainer(environment: Bandit | None = None, **settings: Any) -> PPO:
    """A trainer on the bandit."""
    chosen: dict[str, Any] = {
        "group": 8,
        "limit": 4,
        "end": (END,),
        "pad": END,
        "policy_rate": 3e-3,
        "critic_rate": 3e-3,
        "seed": 1,
    }
    return PPO(
        a_network(VOCABULARY, 1),
        a_network(1, 2),
        environment or Bandit(),
        PPOSettings(**{**chosen, **settings}),
    )
