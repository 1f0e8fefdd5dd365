"""Proximal policy optimisation as PaCoRe trains with it: strictly on-policy, with a learned critic.

Reads top to bottom: the settings, one iteration (episodes, trajectories, rewards,
advantages, one update), and its metrics. A group of n trajectories shares a prompt, whose keys and values are
computed once, in sampling and in the update. There is no KL penalty and no entropy bonus.

It knows nothing of tasks, tokenizers, checkpoints or progress; :mod:`pacore.training.run` keeps those.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from pacore.errors import ConfigError, TrainingError
from pacore.training.advantages import estimate_advantages, whiten
from pacore.training.episode import Environment, Episode, Grade
from pacore.training.network import Network
from pacore.training.rollout import Rollout, pad_rows, sample, trajectory_outputs


@dataclass(frozen=True, kw_only=True)
class PPOSettings:
    """How the policy is trained.

    group           trajectories a prompt (n).
    limit           tokens of a trajectory.
    end, pad        tokens that end a trajectory, and the one that fills rows up; they may be the same.
    policy_rate, critic_rate   learning rates (AdamW, no weight decay).
    gamma, lam      discount and λ of the advantages; 1 and 1 as in the paper.
    clip            of the probability ratio, which is 1 in a strictly on-policy update.
    whiten          advantages to mean 0 and deviation 1 over the batch.
    truncation      what a trajectory cut at the limit is: ``bootstrap`` (not an ending: the critic's value
                    stands for what would have come) or ``zero`` (an ending like any other).
    unverifiable    what a trajectory without a verdict is: reward ``zero``, or ``drop``: in no loss at all.
    micro           prompts a backward pass; gradients accumulate over the batch. 0 takes all at once.
    max_norm        to which gradients are clipped.
    precision       ``bfloat16`` computes matrix products in it; weights stay in float32.
    replay_weight   weight of the cross-entropy on the environment's replay; 0 is the paper's PPO.
    """

    group: int
    limit: int
    end: tuple[int, ...]
    pad: int
    policy_rate: float = 2e-6
    critic_rate: float = 5e-6
    warmup: int = 0
    gamma: float = 1.0
    lam: float = 1.0
    clip: float = 0.2
    whiten: bool = True
    truncation: Literal["bootstrap", "zero"] = "bootstrap"
    unverifiable: Literal["zero", "drop"] = "zero"
    micro: int = 0
    max_norm: float = 1.0
    precision: Literal["float32", "bfloat16"] = "float32"
    replay_weight: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("group", "limit"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("policy_rate", "critic_rate", "clip", "max_norm"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be a positive number")
        for name in ("gamma", "lam"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must lie in [0, 1]")


class PPO:
    """A policy and its critic in training; :meth:`iterate` is one step."""

    def __init__(
        self, policy: Network, critic: Network, environment: Environment, settings: PPOSettings
    ) -> None:
        self.policy = policy
        self.critic = critic
        self.iteration = 0
        self._environment = environment
        self._settings = settings
        self._device = next(policy.parameters()).device
        self._generator = torch.Generator(self._device).manual_seed(settings.seed)
        self._policy_optimizer = _optimizer(policy, settings.policy_rate)
        self._critic_optimizer = _optimizer(critic, settings.critic_rate)

    def iterate(self) -> dict[str, float]:
        """Sample, grade and learn once; returns the metrics.

        Raises TrainingError, with policy, critic and iteration as they were, where a loss is no number.
        """
        started = time.perf_counter()
        episodes = self._environment.episodes(self.iteration)
        rollout = self._sample(episodes)
        sampled = time.perf_counter()
        grades = self._environment.grade(episodes, _rows(rollout))
        graded = time.perf_counter()
        parts = self._parts(rollout, grades)
        losses = self._update(parts)
        self.iteration += 1
        ended = time.perf_counter()
        times = {
            "sampling_s": sampled - started,
            "grading_s": graded - sampled,
            "update_s": ended - graded,
            "seconds": ended - started,
            "tokens_per_second": float(rollout.mask.sum()) / (ended - started),
        }
        return {"iteration": self.iteration, **_outcome(episodes, grades, rollout), **losses, **times}

    def _sample(self, episodes: Sequence[Episode]) -> Rollout:
        settings = self._settings
        with self._computing():
            return sample(
                self.policy,
                [episode.prompt for episode in episodes],
                settings.group,
                limit=settings.limit,
                end=settings.end,
                pad=settings.pad,
                generator=self._generator,
            )

    def _parts(self, rollout: Rollout, grades: list[list[Grade]]) -> list[_Part]:
        """The batch in parts of ``micro`` prompts, with advantages over all of it."""
        size = self._settings.micro or len(grades)
        parts = [
            self._part(rollout.part(slice(begin, begin + size)), grades[begin : begin + size])
            for begin in range(0, len(grades), size)
        ]
        if not any(part.mask.any() for part in parts):
            raise TrainingError(
                "no trajectory of the batch could be verified; nothing can be learned from it"
            )
        if self._settings.whiten:
            whitened = whiten([part.advantages for part in parts], [part.mask for part in parts])
            parts = [replace(part, advantages=found) for part, found in zip(parts, whitened, strict=True)]
        return parts

    def _part(self, rollout: Rollout, grades: list[list[Grade]]) -> _Part:
        settings = self._settings
        found = [[grade.reward for grade in row] for row in grades]
        rewards = torch.tensor([[reward or 0.0 for reward in row] for row in found], device=self._device)
        mask = rollout.mask
        if settings.unverifiable == "drop":
            known = [[reward is not None for reward in row] for row in found]
            mask = mask & torch.tensor(known, device=self._device)[..., None]
        with torch.no_grad(), self._computing():
            values = _values(self.critic, rollout)
        advantages, returns = estimate_advantages(
            rewards,
            values,
            mask,
            gamma=settings.gamma,
            lam=settings.lam,
            bootstrap=~rollout.ended if settings.truncation == "bootstrap" else None,
        )
        return _Part(rollout, mask, advantages, returns, values[..., :-1])

    def _update(self, parts: Sequence[_Part]) -> dict[str, float]:
        """One gradient step of policy and critic on the batch, taken in parts."""
        self._policy_optimizer.zero_grad()
        self._critic_optimizer.zero_grad()
        total = torch.stack([part.mask.sum() for part in parts]).sum()
        found = [self._backward(part, total) for part in parts]
        losses = {name: sum(one[name] for one in found) for name in found[0]}
        losses["log_prob_drift"] = max(one["log_prob_drift"] for one in found)
        if self._settings.replay_weight > 0:
            losses["replay_loss"] = self._replay_backward()
        return {**losses, **self._step(losses), "explained_variance": _explained(parts)}

    def _backward(self, part: _Part, total: Tensor) -> dict[str, float]:
        """Add a part's gradients; its shares of the losses, and how far log-probabilities moved."""
        mask, clip = part.mask, self._settings.clip
        with self._computing():
            scores = trajectory_outputs(self.policy, part.rollout).float().log_softmax(-1)
        log_probs = scores.gather(-1, part.rollout.tokens[..., None]).squeeze(-1)
        shift = torch.where(mask, log_probs - part.rollout.log_probs, 0.0)
        ratio = shift.exp()
        gain = torch.minimum(ratio * part.advantages, ratio.clamp(1 - clip, 1 + clip) * part.advantages)
        policy_loss = -torch.where(mask, gain, 0.0).sum() / total
        policy_loss.backward()
        with torch.no_grad():
            entropy = torch.where(mask, -(scores.exp() * scores).sum(-1), 0.0).sum() / total
            clipped = (mask & ((ratio - 1).abs() > clip)).sum() / total
        del scores
        with self._computing():
            values = trajectory_outputs(self.critic, part.rollout).float().squeeze(-1)
        value_loss = torch.where(mask, (values - part.returns) ** 2, 0.0).sum() / total / 2
        value_loss.backward()
        return {
            "policy_loss": policy_loss.item(),
            "value_loss": value_loss.item(),
            "entropy": entropy.item(),
            "clipped": clipped.item(),
            "log_prob_drift": shift.detach().abs().max().item(),
        }

    def _replay_backward(self) -> float:
        """Add the gradients of the cross-entropy on the environment's replay; its value."""
        prompts, trajectories = self._environment.replay(self.iteration)
        tokens, lengths = pad_rows(prompts, self._settings.pad)
        replayed, sizes = pad_rows(trajectories, self._settings.pad)
        mask = (torch.arange(replayed.shape[1]) < sizes[:, None])[:, None]
        replayed = replayed[:, None]
        again = Rollout(
            tokens,
            lengths,
            replayed,
            mask,
            torch.zeros(mask.shape),
            torch.ones(mask.shape[:2], dtype=torch.bool),
        ).to(self._device)
        with self._computing():
            logits = trajectory_outputs(self.policy, again).float()
        loss = functional.cross_entropy(logits[again.mask], again.tokens[again.mask])
        (self._settings.replay_weight * loss).backward()
        return loss.item()

    def _step(self, losses: dict[str, float]) -> dict[str, float]:
        """Clip and apply the gradients. Raises TrainingError before anything is changed."""
        settings = self._settings
        norms = {
            "policy_norm": float(nn.utils.clip_grad_norm_(self.policy.parameters(), settings.max_norm)),
            "critic_norm": float(nn.utils.clip_grad_norm_(self.critic.parameters(), settings.max_norm)),
        }
        wrong = {name: value for name, value in {**losses, **norms}.items() if not math.isfinite(value)}
        if wrong:
            raise TrainingError(
                f"iteration {self.iteration + 1}: no finite number: {wrong}; nothing was changed. Lower the "
                "learning rates, or train in float32"
            )
        heat = min(1.0, (self.iteration + 1) / settings.warmup) if settings.warmup else 1.0
        for optimizer, rate in (
            (self._policy_optimizer, settings.policy_rate),
            (self._critic_optimizer, settings.critic_rate),
        ):
            for group in optimizer.param_groups:
                group["lr"] = heat * rate
            optimizer.step()
        return norms

    def _computing(self) -> contextlib.AbstractContextManager[Any]:
        if self._settings.precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self._device.type, dtype=torch.bfloat16)

    def state(self) -> dict[str, Any]:
        """All that the next iteration follows from, for a checkpoint."""
        return {
            "iteration": self.iteration,
            "policy": self.policy.state_dict(),
            "critic": self.critic.state_dict(),
            "policy_optimizer": self._policy_optimizer.state_dict(),
            "critic_optimizer": self._critic_optimizer.state_dict(),
            "generator": self._generator.get_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state` gave."""
        self.policy.load_state_dict(state["policy"])
        self.critic.load_state_dict(state["critic"])
        self._policy_optimizer.load_state_dict(state["policy_optimizer"])
        self._critic_optimizer.load_state_dict(state["critic_optimizer"])
        self._generator.set_state(state["generator"].cpu())
        self.iteration = state["iteration"]


@dataclass(frozen=True, slots=True)
class _Part:
    """Some prompts of a batch with what their tokens are worth, [P, n, T] each.

    ``mask`` is true on the tokens that are learned from.
    """

    rollout: Rollout
    mask: Tensor
    advantages: Tensor
    returns: Tensor
    values: Tensor


def _optimizer(network: Network, rate: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(network.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.0)


def _values(critic: Network, rollout: Rollout) -> Tensor:
    """The critic's values before each token and after the last, [P, n, T + 1]."""
    prompts = critic.read_prompts(rollout.prompts, rollout.lengths)
    first = prompts.last[:, None, None].expand(-1, rollout.tokens.shape[1], -1, -1)
    read = critic.read_trajectories(prompts, rollout.tokens)
    return torch.cat([first, read], dim=2).float().squeeze(-1)


def _explained(parts: Sequence[_Part]) -> float:
    """The share of the returns' variance that the critic foresaw."""
    returns = torch.cat([part.returns[part.mask] for part in parts])
    values = torch.cat([part.values[part.mask] for part in parts])
    spread = float(returns.var(correction=0))
    # Returns that are all the same leave nothing to foresee.
    return 1 - float((returns - values).var(correction=0)) / spread if spread > 1e-6 else 0.0


def _rows(rollout: Rollout) -> list[list[list[int]]]:
    """The trajectories as ragged lists of tokens."""
    sizes = rollout.mask.sum(-1).tolist()
    return [
        [row[:size] for row, size in zip(rows, lengths, strict=True)]
        for rows, lengths in zip(rollout.tokens.tolist(), sizes, strict=True)
    ]


def _outcome(episodes: Sequence[Episode], grades: list[list[Grade]], rollout: Rollout) -> dict[str, float]:
    """What the trajectories came to, beside the messages they read."""
    means = [sum(grade.reward or 0.0 for grade in row) / len(row) for row in grades]
    every = [grade for row in grades for grade in row]
    wrong = [mean for mean, episode in zip(means, episodes, strict=True) if episode.message_accuracy == 0]
    sizes = rollout.mask.sum(-1).float()
    measures: dict[str, float | None] = {
        "reward": _mean(means),
        "message_accuracy": _mean([e.message_accuracy for e in episodes if e.message_accuracy is not None]),
        "majority": _mean([e.majority for e in episodes if e.majority is not None]),
        "emergent": _mean(wrong),
        "mentions": _mean([grade.mentions for grade in every]),
        "unverifiable": _mean([grade.reward is None for grade in every]),
        "length": float(sizes.mean()),
        "truncated": 1 - float(rollout.ended.float().mean()),
    }
    return {name: value for name, value in measures.items() if value is not None}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
