"""The miniature model at work: prompts in, trajectories out, many at a time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pacore.seeds import derive_seed
from pacore.training.miniature import locks
from pacore.training.network import Network
from pacore.training.rollout import sample

ROWS = 1024
"""Trajectories sampled at once; more cost memory and gain no speed."""


@dataclass(frozen=True, slots=True)
class Thought:
    """A trajectory: its tokens with the end token, and the code it states, ``None`` where it states none."""

    tokens: tuple[int, ...]
    code: tuple[int, ...] | None

    @property
    def mentions(self) -> int:
        """How often it takes a digit from a reference."""
        return self.tokens.count(locks.COPY_TOKEN)

    @property
    def message(self) -> str | None:
        """What compaction keeps of it."""
        return None if self.code is None else locks.code_text(self.code)

    @property
    def text(self) -> str:
        """All of it, as a reference without compaction."""
        return locks.decode(self.tokens)


def read_thought(tokens: Sequence[int]) -> Thought:
    """The trajectory that sampled tokens are.

    What was cut off, closed no thinking, or jammed a lock, states no code.
    """
    code = None
    if tokens and tokens[-1] == locks.END_TOKEN and locks.CLOSE_TOKEN in tokens:
        last = len(tokens) - 1 - tuple(reversed(tokens)).index(locks.CLOSE_TOKEN)
        jammed = locks.jams(locks.decode(tokens[:last]).split())
        code = None if jammed else locks.read_code(locks.decode(tokens[last + 1 :]))
    return Thought(tuple(tokens), code)


def think(model: Network, prompts: Sequence[Sequence[int]], number: int, *, seed: int) -> list[list[Thought]]:
    """``number`` trajectories a prompt.

    Prompts of like length are sampled together: trajectories of few locks end early.
    """
    order = sorted(range(len(prompts)), key=lambda place: (_locks_of(prompts[place]), len(prompts[place])))
    size = max(1, ROWS // number)
    found: list[list[Thought]] = [[] for _ in prompts]
    for begin in range(0, len(order), size):
        chosen = order[begin : begin + size]
        generator = torch.Generator().manual_seed(derive_seed("think", seed, begin))
        rollout = sample(
            model,
            [prompts[place] for place in chosen],
            number,
            limit=locks.LONGEST_TRAJECTORY,
            end=(locks.END_TOKEN,),
            pad=locks.PAD_TOKEN,
            generator=generator,
        )
        sizes = rollout.mask.sum(-1).tolist()
        for place, rows, lengths in zip(chosen, rollout.tokens.tolist(), sizes, strict=True):
            found[place] = [read_thought(row[:length]) for row, length in zip(rows, lengths, strict=True)]
    return found


def majority(codes: Sequence[tuple[int, ...] | None], draw: random.Random) -> tuple[int, ...] | None:
    """The most frequent code, ties broken at random; ``None`` where there is none."""
    counts: dict[tuple[int, ...], int] = {}
    for code in codes:
        if code is not None:
            counts[code] = counts.get(code, 0) + 1
    if not counts:
        return None
    most = max(counts.values())
    return draw.choice([code for code, count in counts.items() if count == most])


def _locks_of(prompt: Sequence[int]) -> int:
    return sum(locks.VOCABULARY[token] in locks.NAMES for token in prompt)
