"""The arithmetic of comparisons: means with honest errors, pass@k, votes, paired differences.

Scores are arrays of shape (problems, runs) with rewards in [0, 1]; a run that is missing is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Scores: TypeAlias = NDArray[np.float64]

DRAWS = 10_000
"""Bootstrap draws: intervals then have an error far below a tenth of a point."""


FEWEST = 5
"""Problems below which a difference has no interval."""


class Estimate(Struct, frozen=True, kw_only=True):
    """A mean over problems with its uncertainty.

    ``se`` is clustered by problem: the error of the mean over problems like these, which runs of the same
    problem do not shrink. ``within_se`` is that for just these problems, from the spread between runs;
    ``None`` with a single run. ``low`` and ``high`` bound the 95 % bootstrap interval over problems.
    """

    mean: float
    se: float
    within_se: float | None
    low: float
    high: float
    problems: int
    runs: float


def estimate(scores: Scores, *, seed: int = 0) -> Estimate:
    """pass@1, or any mean of the kind: the mean over problems of the mean over their runs."""
    means = problem_means(scores)
    low, high = interval(means, seed=seed)
    counts = np.sum(~np.isnan(scores), axis=1)
    return Estimate(
        mean=float(np.mean(means)) if means.size else math.nan,
        se=clustered_se(means),
        within_se=_within_se(scores),
        low=low,
        high=high,
        problems=int(means.size),
        runs=float(np.mean(counts[counts > 0])) if means.size else 0.0,
    )


def problem_means(scores: Scores) -> Scores:
    """The mean over runs of each problem that has any."""
    present = scores[~np.all(np.isnan(scores), axis=1)]
    return np.asarray(np.nanmean(present, axis=1), dtype=np.float64) if present.size else np.empty(0)


def clustered_se(means: Scores) -> float:
    """Standard error of the mean over problems drawn from a larger population; NaN for a single one."""
    return float(np.std(means, ddof=1) / math.sqrt(means.size)) if means.size > 1 else math.nan


def _within_se(scores: Scores) -> float | None:
    counts = np.sum(~np.isnan(scores), axis=1)
    repeated = scores[counts > 1]
    if repeated.size == 0 or np.any(counts == 1):
        return None
    variances = np.nanvar(repeated, axis=1, ddof=1) / counts[counts > 1]
    return float(math.sqrt(np.sum(variances)) / len(repeated))


def interval(means: Scores, *, seed: int = 0, level: float = 0.95) -> tuple[float, float]:
    """Bootstrap interval of the mean, problems drawn with replacement."""
    if means.size == 0:
        return math.nan, math.nan
    drawn = _resampled_means(means, seed)
    tail = (1 - level) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return float(low), float(high)


def _resampled_means(means: Scores, seed: int) -> Scores:
    return np.asarray(_weights(means.size, seed) @ means / means.size, dtype=np.float64)


@lru_cache(maxsize=1)
def _weights(problems: int, seed: int) -> NDArray[np.float32]:
    """How often each problem is in each draw, shape (draws, problems): the same draws for all methods."""
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(problems, np.full(problems, 1 / problems), size=DRAWS)
    return np.asarray(drawn, dtype=np.float32)


class Rate(Struct, frozen=True, kw_only=True):
    """A share of events, with its error clustered by problem; ``of`` is how many events there were."""

    value: float
    se: float
    of: int


def rate(hits: Scores, events: Scores) -> Rate | None:
    """``hits`` of ``events``, each summed a problem, shape (problems,); ``None`` without any event.

    The error is that of a ratio of two sums over problems (linearised).
    """
    total = float(events.sum())
    if total == 0:
        return None
    value = float(hits.sum() / total)
    concerned = events > 0
    count = int(concerned.sum())
    residuals = hits[concerned] - value * events[concerned]
    se = math.sqrt(count / (count - 1) * float(residuals @ residuals)) / total if count > 1 else math.nan
    return Rate(value=value, se=se, of=int(total))


class Difference(Struct, frozen=True, kw_only=True):
    """One method minus another on the same problems, with the 95 % interval of the paired difference."""

    mean: float
    low: float
    high: float
    problems: int

    @property
    def is_gain(self) -> bool:
        """Whether the interval lies above 0."""
        return self.low > 0

    @property
    def is_loss(self) -> bool:
        """Whether the interval lies below 0."""
        return self.high < 0


def paired_difference(one: Scores, other: Scores, *, seed: int = 0) -> Difference:
    """The difference of two methods' means over the problems that both have, problem by problem.

    Rows of the two arrays are the same problems. With fewer than FEWEST of them there is no interval, as
    problems drawn again from so few say next to nothing.
    """
    both = ~np.all(np.isnan(one), axis=1) & ~np.all(np.isnan(other), axis=1)
    differences = problem_means(one[both]) - problem_means(other[both])
    low, high = interval(differences, seed=seed) if differences.size >= FEWEST else (math.nan, math.nan)
    mean = float(np.mean(differences)) if differences.size else math.nan
    return Difference(mean=mean, low=low, high=high, problems=int(differences.size))


def pass_at_k(total: int, correct: int, k: int) -> float:
    """The unbiased estimate of the chance that one of ``k`` is correct, of ``total`` with ``correct`` right.

    1 - C(total - correct, k) / C(total, k), as a product that does not overflow (Chen et al. 2021).
    """
    if not 1 <= k <= total:
        raise ValueError(f"pass@{k} of {total} trajectories: k is between 1 and their number")
    if total - correct < k:
        return 1.0
    places = np.arange(total - correct + 1, total + 1)
    return float(1.0 - np.prod(1.0 - k / places))


def expected_maximum(values: Sequence[float], k: int) -> float:
    """The mean of the largest of ``k`` values drawn without replacement: by order statistics, exact.

    The i-th smallest of n is the largest of k with probability C(i - 1, k - 1) / C(n, k).
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n = ordered.size
    if not 1 <= k <= n:
        raise ValueError(f"the largest of {k} of {n} values: k is at most their number")
    # From the largest down, each probability follows from the one before.
    probability, total = k / n, 0.0
    for place in range(n - 1, k - 2, -1):
        total += probability * ordered[place]
        probability *= (place - k + 1) / place if place else 0.0
    return float(total)


def majority_at_k(
    classes: Sequence[int], rewards: Sequence[float], k: int, *, draws: int = 64, seed: int = 0
) -> Scores:
    """Self-consistency@k on one problem, estimated as the paper does: ``draws`` times, k of the pool.

    Shape (draws,): the reward of the most frequent answer class, equally frequent ones averaged, which is
    their expectation when ties are broken at random. Class -1 has no answer and no vote; where nobody votes
    the reward is 0. A class is worth the mean reward of its members in the whole pool.
    """
    labels, worth = np.asarray(classes), np.asarray(rewards, dtype=np.float64)
    if not 1 <= k <= labels.size:
        raise ValueError(f"self-consistency@{k} of {labels.size} trajectories: k is at most their number")
    number = int(labels.max()) + 1 if labels.size else 0
    if number <= 0:
        return np.zeros(draws)
    values = np.array([worth[labels == label].mean() for label in range(number)])
    rng = np.random.default_rng(seed)
    chosen = np.argpartition(rng.random((draws, labels.size)), k - 1, axis=1)[:, :k]
    votes = np.zeros((draws, number + 1))
    np.add.at(votes, (np.repeat(np.arange(draws), k), labels[chosen].ravel()), 1)
    # Class -1 is the last column.
    votes = votes[:, :number]
    most = votes.max(axis=1, keepdims=True)
    winners = (votes == most) & (most > 0)
    weights = winners.sum(axis=1)
    return np.asarray(winners @ values / np.maximum(weights, 1), dtype=np.float64)


def spread(values: Scores) -> tuple[float, float, float]:
    """Median, 95th percentile and maximum of what is not NaN."""
    present = values[~np.isnan(values)]
    if present.size == 0:
        return math.nan, math.nan, math.nan
    return float(np.median(present)), float(np.quantile(present, 0.95)), float(present.max())
