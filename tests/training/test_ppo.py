"""The trainer: it learns, it is exact, and it stops where it must."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from pacore.errors import ConfigError, TrainingError
from pacore.training.ppo import PPO, PPOSettings
from support.bandit import END, VOCABULARY, Bandit, a_trainer


def weights(ppo: PPO) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in (*ppo.policy.parameters(), *ppo.critic.parameters())]


def equal(one: list[torch.Tensor], two: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_a_bandit_with_a_known_optimum_is_solved() -> None:
    ppo = a_trainer(Bandit(prompts=16), group=32, policy_rate=2e-3, truncation="zero")
    first = ppo.iterate()["reward"]
    rewards = [ppo.iterate()["reward"] for _ in range(80)]
    assert first < 0.1
    assert sum(rewards[-10:]) / 10 > 0.95


def test_log_probabilities_are_the_same_in_sampling_and_in_the_update() -> None:
    ppo = a_trainer()
    for _ in range(3):
        metrics = ppo.iterate()
        assert metrics["log_prob_drift"] < 1e-4
        assert metrics["clipped"] == 0


@pytest.mark.parametrize("micro", [1, 3])
def test_accumulated_gradients_are_those_of_the_whole_batch(micro: int) -> None:
    whole, parts = a_trainer(), a_trainer(micro=micro)
    one, two = whole.iterate(), parts.iterate()
    for name in ("policy_loss", "value_loss", "entropy", "policy_norm", "critic_norm"):
        assert two[name] == pytest.approx(one[name], rel=1e-3, abs=1e-5)
    for a, b in zip(weights(whole), weights(parts), strict=True):
        assert torch.allclose(a, b, atol=2e-4)


def test_a_restored_trainer_takes_the_same_next_step() -> None:
    ppo = a_trainer()
    ppo.iterate()
    kept = copy.deepcopy(ppo.state())
    expected = ppo.iterate()
    again = a_trainer()
    again.restore(kept)
    found = again.iterate()
    assert equal(weights(ppo), weights(again))
    assert {n: v for n, v in found.items() if n in ("reward", "policy_loss", "value_loss")} == {
        n: v for n, v in expected.items() if n in ("reward", "policy_loss", "value_loss")
    }


def test_a_loss_that_is_no_number_stops_before_anything_changes() -> None:
    ppo = a_trainer()
    ppo.iterate()
    with torch.no_grad():
        next(ppo.critic.parameters())[:] = torch.nan
    before = weights(ppo)[:-1]
    with pytest.raises(TrainingError, match="no finite number"):
        ppo.iterate()
    assert ppo.iteration == 1
    policy = [parameter.detach() for parameter in ppo.policy.parameters()]
    assert equal(policy, before[: len(policy)])


def test_the_end_token_as_padding_corrupts_nothing() -> None:
    same, other = a_trainer(pad=END), a_trainer(pad=VOCABULARY - 2)
    one, two = same.iterate(), other.iterate()
    for name in ("reward", "length", "entropy", "policy_loss", "value_loss"):
        assert one[name] == pytest.approx(two[name], abs=1e-6)


def test_what_cannot_be_verified_earns_nothing_or_is_left_out() -> None:
    zero = a_trainer(Bandit(verifiable=False), unverifiable="zero")
    metrics = zero.iterate()
    assert metrics["unverifiable"] == 1 and metrics["reward"] == 0
    drop = a_trainer(Bandit(verifiable=False), unverifiable="drop")
    with pytest.raises(TrainingError, match="no trajectory of the batch could be verified"):
        drop.iterate()


def test_truncation_is_counted_and_bootstraps_unless_told() -> None:
    cut, ended = a_trainer(limit=1), a_trainer(limit=1, truncation="zero")
    with torch.no_grad():
        for ppo in (cut, ended):
            ppo.critic.get_parameter("head.weight").normal_(generator=torch.Generator().manual_seed(3))
    one, two = cut.iterate(), ended.iterate()
    assert one["truncated"] == two["truncated"] > 0
    assert one["value_loss"] != pytest.approx(two["value_loss"])


def test_replay_adds_its_cross_entropy() -> None:
    ppo = a_trainer(replay_weight=0.5)
    losses = [ppo.iterate()["replay_loss"] for _ in range(30)]
    assert losses[-1] < losses[0]


def test_bfloat16_computes_in_it_and_keeps_its_weights() -> None:
    ppo = a_trainer(precision="bfloat16")
    metrics = ppo.iterate()
    assert metrics["log_prob_drift"] < 0.1
    assert all(parameter.dtype == torch.float32 for parameter in ppo.policy.parameters())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"group": 0}, "group is 0"),
        ({"limit": -1}, "limit is -1"),
        ({"policy_rate": float("nan")}, "policy_rate is nan"),
        ({"gamma": 1.5}, "gamma is 1.5"),
    ],
)
def test_settings_that_are_nonsense_are_named(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        PPOSettings(**{"group": 2, "limit": 2, "end": (0,), "pad": 0, **wrong})
