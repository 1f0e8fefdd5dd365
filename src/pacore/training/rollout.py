"""Trajectories sampled in groups that share a prompt, and what the update reads of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pacore.training.network import Network


@dataclass(frozen=True, slots=True)
class Rollout:
    """P prompts with n trajectories each, as tensors.

    ``prompts`` [P, Tp] and ``tokens`` [P, n, T] are padded on the right; ``mask`` [P, n, T] is true on
    every generated token, the end token among them. ``log_probs`` [P, n, T] are the sampler's own.
    ``ended`` [P, n] is true where the model ended the trajectory itself, false where the limit cut it.
    """

    prompts: Tensor
    lengths: Tensor
    tokens: Tensor
    mask: Tensor
    log_probs: Tensor
    ended: Tensor

    def to(self, device: torch.device) -> Rollout:
        """The same on a device."""
        tensors = (self.prompts, self.lengths, self.tokens, self.mask, self.log_probs, self.ended)
        return Rollout(*(tensor.to(device) for tensor in tensors))

    def part(self, rows: slice) -> Rollout:
        """The rollout of some of the prompts, without padding that only the others need."""
        width, longest = int(self.lengths[rows].max()), int(self.mask[rows].sum(-1).max())
        return Rollout(
            self.prompts[rows, :width],
            self.lengths[rows],
            self.tokens[rows, :, :longest],
            self.mask[rows, :, :longest],
            self.log_probs[rows, :, :longest],
            self.ended[rows],
        )


def pad_rows(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Ragged rows as one tensor, padded on the right, and their lengths."""
    lengths = torch.tensor([len(row) for row in rows])
    tokens = torch.full((len(rows), int(lengths.max())), pad)
    for place, row in enumerate(rows):
        tokens[place, : len(row)] = torch.tensor(row)
    return tokens, lengths


@torch.no_grad()
def sample(
    policy: Network,
    prompts: Sequence[Sequence[int]],
    number: int,
    *,
    limit: int,
    end: Sequence[int],
    pad: int,
    generator: torch.Generator,
) -> Rollout:
    """Sample ``number`` trajectories a prompt at temperature 1 and top_p 1, of at most ``limit`` tokens.

    A trajectory ends with any token of ``end``. Prompts whose trajectories have all ended cost nothing more.
    """
    device = next(policy.parameters()).device
    tokens, lengths = (part.to(device) for part in pad_rows(prompts, pad))
    state = policy.read_prompts(tokens, lengths)
    shape = (len(prompts), number, limit)
    drawn = torch.full(shape, pad, device=device)
    mask = torch.zeros(shape, dtype=torch.bool, device=device)
    log_probs = torch.zeros(shape, device=device)
    ended = torch.zeros(shape[:2], dtype=torch.bool, device=device)
    ends = torch.tensor(list(end), device=device)
    outputs = state.last[:, None].expand(-1, number, -1)
    growing = policy.begin(state, number, limit)
    rows = torch.arange(len(prompts), device=device)
    for place in range(limit):
        scores = outputs.float().log_softmax(-1)
        chosen = _draw(scores, generator)
        alive = ~ended[rows]
        drawn[rows, :, place] = torch.where(alive, chosen, pad)
        log_probs[rows, :, place] = scores.gather(-1, chosen[..., None]).squeeze(-1) * alive
        mask[rows, :, place] = alive
        ended[rows] |= torch.isin(chosen, ends)
        going = ~ended[rows].all(1)
        if place + 1 == limit or not going.any():
            break
        if going.sum() <= 0.8 * len(rows):
            policy.keep(growing, going.nonzero().squeeze(1))
            rows, chosen = rows[going], chosen[going]
        outputs = policy.step(growing, chosen)
    longest = int(mask.sum(-1).max())
    return Rollout(
        tokens, lengths, drawn[..., :longest], mask[..., :longest], log_probs[..., :longest], ended
    )


def trajectory_outputs(network: Network, rollout: Rollout) -> Tensor:
    """The outputs from which each token of each trajectory is predicted, [P, n, T, outputs]."""
    prompts = network.read_prompts(rollout.prompts, rollout.lengths)
    number = rollout.tokens.shape[1]
    first = prompts.last[:, None, None].expand(-1, number, -1, -1)
    if rollout.tokens.shape[2] == 1:
        return first
    return torch.cat([first, network.read_trajectories(prompts, rollout.tokens[..., :-1])], dim=2)


def _draw(scores: Tensor, generator: torch.Generator) -> Tensor:
    """One token a row, from log-probabilities [..., vocabulary]."""
    flat = scores.exp().flatten(0, -2)
    return torch.multinomial(flat, 1, generator=generator).view(scores.shape[:-1])
