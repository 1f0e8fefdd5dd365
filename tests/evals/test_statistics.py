"""Statistics against closed forms and plain references."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from pacore.evals.statistics import (
    Scores,
    estimate,
    expected_maximum,
    majority_at_k,
    paired_difference,
    pass_at_k,
    problem_means,
    rate,
)


def scores_of(*rows: list[float]) -> Scores:
    width = max(map(len, rows))
    return np.array([row + [math.nan] * (width - len(row)) for row in rows])


def test_the_mean_is_over_problems_however_many_runs_each_has() -> None:
    found = estimate(scores_of([1, 1, 1, 1], [0], []))
    assert found.mean == 0.5
    assert (found.problems, found.runs) == (2, 2.5)


def test_the_error_is_clustered_by_problem() -> None:
    # Ten runs of the same outcome tell no more than one.
    once = estimate(scores_of([1.0], [0.0], [1.0], [0.0]))
    often = estimate(scores_of([1.0] * 10, [0.0] * 10, [1.0] * 10, [0.0] * 10))
    assert once.se == often.se == pytest.approx(math.sqrt(1 / 3) / 2)
    assert often.within_se == 0.0
    assert once.within_se is None


def test_errors_and_intervals_hold_what_they_promise() -> None:
    rng = np.random.default_rng(1)
    rates = rng.beta(1, 1, size=(200, 100))
    estimates = [estimate((rng.random((100, 4)) < row[:, None]).astype(float)) for row in rates]
    covered = [found.low <= 0.5 <= found.high for found in estimates]
    assert 0.90 <= np.mean(covered) <= 0.99
    observed = np.std([found.mean for found in estimates])
    assert np.mean([found.se for found in estimates]) == pytest.approx(observed, rel=0.15)


def test_the_spread_between_runs_is_that_of_the_same_problems_again() -> None:
    rng = np.random.default_rng(2)
    rates = rng.beta(1, 1, size=50)
    again = [estimate((rng.random((50, 6)) < rates[:, None]).astype(float)) for _ in range(300)]
    observed = np.std([found.mean for found in again])
    assert np.mean([found.within_se for found in again]) == pytest.approx(observed, rel=0.1)


@pytest.mark.parametrize(("total", "correct", "k"), [(6, 2, 1), (6, 2, 3), (8, 0, 4), (8, 8, 2), (7, 5, 3)])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_one(total: int, correct: int, k: int) -> None:
    subsets = list(itertools.combinations([True] * correct + [False] * (total - correct), k))
    assert pass_at_k(total, correct, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def test_pass_at_k_neither_overflows_nor_takes_nonsense() -> None:
    assert pass_at_k(512, 1, 256) == pytest.approx(0.5)
    assert 0 <= pass_at_k(100_000, 3, 50_000) <= 1
    with pytest.raises(ValueError, match="between 1 and"):
        pass_at_k(4, 1, 5)


def exact_majority(classes: list[int], rewards: list[float], k: int) -> float:
    """By going through every subset."""
    worth = {
        label: float(np.mean([r for c, r in zip(classes, rewards, strict=True) if c == label]))
        for label in set(classes)
    }
    outcomes = []
    for chosen in itertools.combinations(classes, k):
        counts = Counter(label for label in chosen if label >= 0)
        most = max(counts.values(), default=0)
        winners = [label for label, count in counts.items() if count == most]
        outcomes.append(sum(worth[label] for label in winners) / len(winners) if winners else 0.0)
    return float(np.mean(outcomes))


@pytest.mark.parametrize("k", [1, 2, 4, 6])
def test_the_expected_maximum_is_that_of_all_subsets(k: int) -> None:
    values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0]
    subsets = [max(chosen) for chosen in itertools.combinations(values, k)]
    assert expected_maximum(values, k) == pytest.approx(sum(subsets) / len(subsets))


@pytest.mark.parametrize("k", [1, 2, 3, 5, 9])
def test_votes_are_those_of_all_subsets_with_ties_broken_at_random(k: int) -> None:
    classes = [0, 0, 0, 1, 1, 1, 2, -1, -1]
    rewards = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    found = majority_at_k(classes, rewards, k, draws=40_000, seed=3)
    assert found.mean() == pytest.approx(exact_majority(classes, rewards, k), abs=0.01)


def test_where_nobody_has_an_answer_nobody_is_right() -> None:
    assert majority_at_k([-1, -1], [1.0, 1.0], 2).tolist() == [0.0] * 64
    with pytest.raises(ValueError, match="at most their number"):
        majority_at_k([0], [1.0], 2)


def test_a_paired_difference_is_narrower_than_the_two_by_themselves() -> None:
    rng = np.random.default_rng(4)
    level = rng.random((80, 1))
    one, other = level + 0.05 + 0.02 * rng.random((80, 4)), level + 0.02 * rng.random((80, 4))
    difference = paired_difference(one, other)
    assert difference.is_gain
    assert not difference.is_loss
    assert difference.high - difference.low < 0.02
    assert estimate(one).low < estimate(other).high


def test_problems_that_one_method_lacks_are_left_out_of_the_pair() -> None:
    difference = paired_difference(scores_of([1], [], [1]), scores_of([0], [0], []))
    assert (difference.problems, difference.mean) == (1, 1.0)


def test_from_a_few_problems_nothing_is_concluded() -> None:
    difference = paired_difference(scores_of([1], [1], [1], [1]), scores_of([0], [0], [0], [0]))
    assert difference.mean == 1.0
    assert not difference.is_gain
    assert paired_difference(scores_of(*[[1.0]] * 5), scores_of(*[[0.0]] * 5)).is_gain


def test_a_rate_is_over_events_and_its_error_over_problems() -> None:
    found = rate(np.array([5.0, 0.0, 0.0]), np.array([5.0, 5.0, 0.0]))
    assert found is not None
    assert (found.value, found.of) == (0.5, 10)
    assert found.se == pytest.approx(0.5)
    assert rate(np.zeros(3), np.zeros(3)) is None


def test_no_run_at_all_is_no_number() -> None:
    assert problem_means(scores_of([], [])).size == 0
    assert math.isnan(estimate(np.full((2, 1), math.nan)).mean)
