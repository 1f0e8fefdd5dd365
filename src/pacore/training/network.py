"""What the trainer asks of a model: read prompts once, then the trajectories that share them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


@dataclass(slots=True)
class PromptState:
    """Prompts that were read: P of them, of different lengths.

    ``cache`` is the network's own (keys and values); ``lengths`` are tokens, of shape [P]; ``last`` is the
    output at each prompt's last token, of shape [P, outputs].
    """

    cache: Any
    lengths: Tensor
    last: Tensor


class Network(nn.Module, ABC):
    """A causal model whose prompts are read once for a group of n trajectories.

    The outputs are logits over the vocabulary for a policy, one value for a critic.
    """

    @abstractmethod
    def read_prompts(self, tokens: Tensor, lengths: Tensor) -> PromptState:
        """Read prompts [P, T], padded on the right to T."""

    @abstractmethod
    def read_trajectories(self, prompts: PromptState, tokens: Tensor) -> Tensor:
        """The outputs [P, n, T, outputs] at each token of trajectories [P, n, T] after their prompts."""

    @abstractmethod
    def begin(self, prompts: PromptState, number: int, limit: int) -> Any:
        """A state for sampling ``number`` trajectories a prompt, of at most ``limit`` tokens."""

    @abstractmethod
    def step(self, state: Any, tokens: Tensor) -> Tensor:
        """The outputs [P, n, outputs] after one more token each [P, n]; ``state`` grows."""

    @abstractmethod
    def keep(self, state: Any, rows: Tensor) -> None:
        """Go on with the prompts ``rows`` [kept] of ``state`` alone."""
