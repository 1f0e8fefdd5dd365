"""Advantages against a slow plain reference, on ragged batches with truncations."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pacore.training.advantages import estimate_advantages, whiten


def plain_gae(
    reward: float, values: list[float], gamma: float, lam: float, *, cut: bool
) -> tuple[list[float], list[float]]:
    """One trajectory; ``values`` has one more entry than the trajectory has tokens."""
    length = len(values) - 1
    advantages = [0.0] * length
    for start in range(length):
        for place in range(start, length):
            ahead = values[place + 1] if place + 1 < length or cut else 0.0
            delta = (reward if place == length - 1 else 0.0) + gamma * ahead - values[place]
            advantages[start] += (gamma * lam) ** (place - start) * delta
    return advantages, [one + two for one, two in zip(advantages, values[:-1], strict=True)]


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    gamma=st.sampled_from([1.0, 0.9, 0.0]),
    lam=st.sampled_from([1.0, 0.95, 0.0]),
    cuts=st.integers(0, 15),
    seed=st.integers(0, 1000),
)
def test_advantages_are_those_of_a_plain_sum_over_deltas(
    lengths: list[int], gamma: float, lam: float, cuts: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    rows, longest = len(lengths), max(lengths)
    values = torch.randn(rows, longest + 1, generator=generator, dtype=torch.float64)
    rewards = torch.rand(rows, generator=generator, dtype=torch.float64)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    cut = torch.tensor([bool(cuts >> row & 1) for row in range(rows)])
    advantages, returns = estimate_advantages(rewards, values, mask, gamma=gamma, lam=lam, bootstrap=cut)
    for row, length in enumerate(lengths):
        expected = plain_gae(
            float(rewards[row]), values[row, : length + 1].tolist(), gamma, lam, cut=bool(cut[row])
        )
        assert advantages[row, :length].tolist() == pytest.approx(expected[0])
        assert returns[row, :length].tolist() == pytest.approx(expected[1])
        assert not advantages[row, length:].any() and not returns[row, length:].any()


def test_with_gamma_and_lambda_1_the_return_of_every_token_is_the_reward() -> None:
    values = torch.randn(2, 3, 6)
    mask = torch.ones(2, 3, 5, dtype=torch.bool)
    rewards = torch.rand(2, 3)
    advantages, returns = estimate_advantages(rewards, values, mask)
    assert torch.allclose(returns, rewards[..., None].expand_as(returns), atol=1e-6)
    assert torch.allclose(advantages, rewards[..., None] - values[..., :-1], atol=1e-6)


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e30])
def test_what_the_critic_says_of_padding_enters_no_advantage(poison: float) -> None:
    mask = torch.tensor([[True, True, False, False], [True, True, True, True]])
    values = torch.zeros(2, 5)
    values[0, 3:] = poison
    clean = estimate_advantages(torch.tensor([1.0, 0.0]), torch.zeros(2, 5), mask)
    poisoned = estimate_advantages(torch.tensor([1.0, 0.0]), values, mask)
    assert all(torch.equal(one, two) for one, two in zip(clean, poisoned, strict=True))


def test_a_cut_trajectory_is_worth_what_the_critic_expected_after_its_last_token() -> None:
    values = torch.tensor([[0.0, 0.0, 0.7]])
    mask = torch.ones(1, 2, dtype=torch.bool)
    zero = torch.zeros(1)
    _, cut = estimate_advantages(zero, values, mask, bootstrap=torch.tensor([True]))
    _, ended = estimate_advantages(zero, values, mask, bootstrap=torch.tensor([False]))
    assert cut.tolist() == [pytest.approx([0.7, 0.7])]
    assert ended.tolist() == [[0.0, 0.0]]


def test_whitening_is_over_the_generated_tokens_of_all_parts() -> None:
    parts = [torch.randn(2, 5) * 3 + 1, torch.randn(3, 4) - 2]
    masks = [torch.rand(2, 5) > 0.3, torch.rand(3, 4) > 0.3]
    white = whiten(parts, masks)
    chosen = torch.cat([part[mask] for part, mask in zip(white, masks, strict=True)])
    assert float(chosen.mean()) == pytest.approx(0, abs=1e-5)
    assert float(chosen.std(correction=0)) == pytest.approx(1, abs=1e-4)
    assert all(not part[~mask].any() for part, mask in zip(white, masks, strict=True))
