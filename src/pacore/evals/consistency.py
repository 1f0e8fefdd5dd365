"""Self-consistency and pass@k estimated from a pool, as the paper does: k of it, drawn again and again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from pacore.config import Prices
from pacore.evals.statistics import Estimate, Scores, estimate, expected_maximum, majority_at_k, pass_at_k
from pacore.evals.votes import NO_ANSWER, PoolVotes
from pacore.seeds import derive_seed

VOTE_DRAWS = 64
"""Resamples of self-consistency a problem, as in the paper."""


class VotePoint(Struct, frozen=True, kw_only=True):
    """Self-consistency and pass@k at one k."""

    k: int
    tokens: float
    majority: Estimate
    pass_at_k: float


class PoolSummary(Struct, frozen=True, kw_only=True):
    """The pool behind an evaluation: ``size`` trajectories a problem (the fewest of any)."""

    size: int
    accuracy: Estimate
    tokens: float
    truncated: float
    unverifiable: float
    curve: list[VotePoint]


class PooledVotes:
    """The votes of all problems, and self-consistency at any k, each computed once."""

    def __init__(self, votes: Mapping[str, PoolVotes], problems: Sequence[str], seed: int) -> None:
        self.problems = [votes.get(name) for name in problems]
        self.known = [found for found in self.problems if found is not None]
        self.size = min(len(found.rewards) for found in self.known)
        self.can_vote = any(label != NO_ANSWER for found in self.known for label in found.classes)
        self._seed = seed
        self._majorities: dict[int, Scores] = {}
        self.tokens = float(np.mean([np.mean(found.tokens) for found in self.known]))

    @property
    def rewards(self) -> Scores:
        """The rewards of the pool, as the scores of one plain call each."""
        width = max(len(found.rewards) for found in self.known)
        table = np.full((len(self.problems), width), math.nan)
        for row, found in enumerate(self.problems):
            if found is not None:
                table[row, : len(found.rewards)] = found.rewards
        return table

    def majority(self, k: int) -> Scores:
        """Self-consistency@k, shape (problems, draws)."""
        if k not in self._majorities:
            table = np.full((len(self.problems), VOTE_DRAWS), math.nan)
            for row, found in enumerate(self.problems):
                if found is not None:
                    table[row] = majority_at_k(
                        found.classes,
                        found.rewards,
                        k,
                        draws=VOTE_DRAWS,
                        seed=derive_seed(self._seed, "votes", found.problem, k),
                    )
            self._majorities[k] = table
        return self._majorities[k]

    def passed(self, k: int) -> float:
        """Unbiased pass@k, averaged over problems."""
        counts = [(len(found.rewards), sum(r >= 1.0 for r in found.rewards)) for found in self.known]
        return float(np.mean([pass_at_k(total, correct, k) for total, correct in counts]))

    def seconds(self, k: int) -> Scores:
        """The expected time of the slowest of k trajectories, shape (problems with a pool,)."""
        return np.array([expected_maximum(found.seconds, k) for found in self.known])

    def usd(self, k: int, settings: Mapping[str, Any]) -> float | None:
        """Dollars a problem of k trajectories, where the evaluation knows prices."""
        if not (known := settings.get("prices")):
            return None
        prices = msgspec.convert(known, Prices)
        prompts = float(np.mean([np.mean(found.prompt_tokens) for found in self.known]))
        return k * (prompts * prices.prompt + self.tokens * prices.completion) / 1e6

    def summary(self) -> PoolSummary:
        """The pool by itself, and the curve over k = 1, 2, 4 … to half of it."""
        ks = [2**power for power in range(self.size.bit_length()) if 2**power <= max(1, self.size // 2)]
        truncated = [flag for found in self.known for flag in found.truncated]
        unverifiable = [flag for found in self.known for flag in found.unverifiable]
        return PoolSummary(
            size=self.size,
            accuracy=estimate(self.rewards, seed=self._seed),
            tokens=self.tokens,
            truncated=sum(truncated) / len(truncated),
            unverifiable=sum(unverifiable) / len(unverifiable),
            curve=[
                VotePoint(
                    k=k,
                    tokens=k * self.tokens,
                    majority=estimate(self.majority(k), seed=self._seed),
                    pass_at_k=self.passed(k),
                )
                for k in (ks if self.can_vote else [])
            ],
        )
