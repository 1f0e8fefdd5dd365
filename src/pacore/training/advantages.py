"""Advantages and returns of trajectories with one terminal reward (GAE, arXiv 1506.02438)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def estimate_advantages(
    rewards: Tensor,
    values: Tensor,
    mask: Tensor,
    *,
    gamma: float = 1.0,
    lam: float = 1.0,
    bootstrap: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimates and returns, both [..., T], zero where ``mask`` is false.

    ``rewards`` [...] come with the last token of each trajectory. ``values`` [..., T + 1] are the critic's
    before each token, and after the last one; values beyond a trajectory's end enter nothing. Where
    ``bootstrap`` [...] is true the trajectory was cut, not ended: the value after its last token stands for
    what would have come.
    """
    following = torch.cat([mask[..., 1:], torch.zeros_like(mask[..., :1])], dim=-1)
    last = mask & ~following
    carries_on = following if bootstrap is None else following | (last & bootstrap[..., None])
    # Chosen, not multiplied: a value beyond the end may be anything, and 0 times infinity is no number.
    ahead = torch.where(carries_on, values[..., 1:], 0.0)
    now = torch.where(mask, values[..., :-1], 0.0)
    deltas = torch.where(last, rewards[..., None].to(now.dtype), 0.0) + gamma * ahead - now
    advantages = torch.zeros_like(now)
    running = torch.zeros_like(rewards, dtype=now.dtype)
    for place in range(mask.shape[-1] - 1, -1, -1):
        running = torch.where(mask[..., place], deltas[..., place] + gamma * lam * running, 0.0)
        advantages[..., place] = running
    return advantages, advantages + now


def whiten(advantages: Sequence[Tensor], masks: Sequence[Tensor]) -> list[Tensor]:
    """Advantages with mean 0 and deviation 1 over the generated tokens of all parts of a batch."""
    chosen = torch.cat([part[mask] for part, mask in zip(advantages, masks, strict=True)])
    mean, deviation = chosen.mean(), chosen.std(correction=0)
    return [
        torch.where(mask, (part - mean) / (deviation + 1e-8), 0.0)
        for part, mask in zip(advantages, masks, strict=True)
    ]
