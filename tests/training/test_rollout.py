"""Prompts that groups share: the same numbers as reading every row whole."""

from __future__ import annotations

import torch

from pacore.training.rollout import Rollout, sample, trajectory_outputs
from support.bandit import END, VOCABULARY, a_network

PROMPTS = [[1, 2, 3, 4, 5], [3], [2, 6, 1]]


def a_rollout(seed: int = 0, limit: int = 9) -> Rollout:
    return sample(
        a_network(VOCABULARY, 1),
        PROMPTS,
        4,
        limit=limit,
        end=(END,),
        pad=END,
        generator=torch.Generator().manual_seed(seed),
    )


def test_shared_prompts_give_the_log_probabilities_of_whole_rows() -> None:
    network, rollout = a_network(VOCABULARY, 1), a_rollout()
    for place, prompt in enumerate(PROMPTS):
        for row in range(4):
            length = int(rollout.mask[place, row].sum())
            tokens = rollout.tokens[place, row, :length].tolist()
            whole = torch.tensor([prompt + tokens])
            # A whole row is one long prompt: read it prefix by prefix.
            found = [
                network.read_prompts(whole[:, :size], torch.tensor([size])).last.log_softmax(-1)[0]
                for size in range(len(prompt), len(prompt) + length)
            ]
            expected = torch.stack([scores[token] for scores, token in zip(found, tokens, strict=True)])
            assert torch.allclose(rollout.log_probs[place, row, :length], expected, atol=1e-4)


def test_the_update_reads_what_sampling_read() -> None:
    network, rollout = a_network(VOCABULARY, 1), a_rollout()
    scores = trajectory_outputs(network, rollout).log_softmax(-1)
    again = scores.gather(-1, rollout.tokens[..., None]).squeeze(-1)
    assert torch.allclose(again[rollout.mask], rollout.log_probs[rollout.mask], atol=1e-4)


def test_a_trajectory_ends_with_its_end_token_or_at_the_limit() -> None:
    rollout = a_rollout(limit=5)
    lengths = rollout.mask.sum(-1)
    last = rollout.tokens.gather(-1, (lengths - 1)[..., None]).squeeze(-1)
    assert torch.equal(rollout.ended, last == END)
    assert torch.equal(lengths[~rollout.ended], torch.full_like(lengths[~rollout.ended], 5))


def test_a_part_of_a_rollout_has_no_padding_that_only_others_need() -> None:
    rollout = a_rollout()
    part = rollout.part(slice(1, 2))
    assert part.prompts.tolist() == [[3]]
    assert part.tokens.shape[-1] == int(rollout.mask[1].sum(-1).max())
    assert torch.equal(part.tokens, rollout.tokens[1:2, :, : part.tokens.shape[-1]])


def test_the_same_generator_gives_the_same_trajectories() -> None:
    assert torch.equal(a_rollout(3).tokens, a_rollout(3).tokens)
    assert not torch.equal(a_rollout(3).log_probs.sum(), a_rollout(4).log_probs.sum())
