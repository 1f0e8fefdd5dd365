"""The miniature model: a small decoder (pre-norm, rotary positions) written for prompts that groups share.

The keys and values of a prompt are computed once for all n trajectories of its group, in sampling and in the
update.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from pacore.training.network import Network, PromptState


@dataclass(frozen=True, kw_only=True)
class TransformerShape:
    """The size of a model; ``outputs`` is the vocabulary's, or 1 for a critic."""

    vocabulary: int
    outputs: int
    width: int = 96
    layers: int = 3
    heads: int = 4


@dataclass(slots=True)
class _Growing:
    """Keys and values of trajectories in the making: per layer [P, n, heads, limit, size]."""

    prompts: PromptState
    keys: list[Tensor]
    values: list[Tensor]
    length: int = 0


class Transformer(Network):
    """The decoder. ``generator`` decides its first weights."""

    def __init__(self, shape: TransformerShape, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(_Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width, bias=False)
        self.head = nn.Linear(shape.width, shape.outputs, bias=False)
        self._begin_weights(generator)

    def _begin_weights(self, generator: torch.Generator | None) -> None:
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                # What is added to the stream starts smaller, so that depth does not widen it.
                depth = (2 * self.shape.layers) ** -0.5 if name.endswith(("out.weight", "down.weight")) else 1
                scale = 0.5 if name == "embedding.weight" else self.shape.width**-0.5 * depth
                nn.init.normal_(parameter, std=scale, generator=generator)
        if self.shape.outputs == 1:
            nn.init.zeros_(self.head.weight)

    def read_prompts(self, tokens: Tensor, lengths: Tensor) -> PromptState:
        """Read prompts [P, T], padded on the right; what a padded place holds is never attended to."""
        turn = _turns(torch.arange(tokens.shape[1], device=tokens.device), self._size)
        stream = self.embedding(tokens)
        cache = []
        for block in self._layers():
            stream, keys, values = block.read_prompt(stream, turn)
            cache.append((keys, values))
        rows = torch.arange(tokens.shape[0], device=tokens.device)
        return PromptState(cache, lengths, self.head(self.norm(stream[rows, lengths - 1])))

    def read_trajectories(self, prompts: PromptState, tokens: Tensor) -> Tensor:
        """The outputs at each token of trajectories [P, n, T]."""
        count, number, length = tokens.shape
        places = torch.arange(length, device=tokens.device)
        turn = _turns((prompts.lengths[:, None] + places).repeat_interleave(number, 0), self._size)
        causal = (places[:, None] >= places).expand(count, -1, -1)
        read = torch.cat([(~_padding(prompts))[:, None].expand(-1, length, -1), causal], dim=2)
        mask = read.repeat_interleave(number, 0)[:, None]
        stream = self.embedding(tokens.flatten(0, 1))
        for block, (keys, values) in zip(self._layers(), prompts.cache, strict=True):
            shared = keys.repeat_interleave(number, 0), values.repeat_interleave(number, 0)
            stream = block.read_trajectory(stream, turn, shared, mask)
        output: Tensor = self.head(self.norm(stream))
        return output.view(count, number, length, -1)

    def begin(self, prompts: PromptState, number: int, limit: int) -> _Growing:
        """Room for the keys and values of ``number`` trajectories a prompt."""
        shape = (len(prompts.lengths), number, self.shape.heads, limit, self._size)
        empty = [prompts.last.new_empty(shape) for _ in range(2 * self.shape.layers)]
        return _Growing(prompts, empty[::2], empty[1::2])

    def step(self, state: _Growing, tokens: Tensor) -> Tensor:
        """Read one more token of each trajectory [P, n]."""
        turn = _turns(state.prompts.lengths + state.length, self._size)[:, None]
        padding = _padding(state.prompts)[:, None, None]
        stream = self.embedding(tokens)
        for layer, (block, shared) in enumerate(zip(self._layers(), state.prompts.cache, strict=True)):
            own = state.keys[layer], state.values[layer]
            stream = block.step(stream, turn, shared, padding, own=own, length=state.length)
        state.length += 1
        output: Tensor = self.head(self.norm(stream))
        return output

    def keep(self, state: _Growing, rows: Tensor) -> None:
        """Go on with some prompts alone."""
        prompts = state.prompts
        cache = [(keys[rows], values[rows]) for keys, values in prompts.cache]
        state.prompts = PromptState(cache, prompts.lengths[rows], prompts.last[rows])
        state.keys = [keys[rows] for keys in state.keys]
        state.values = [values[rows] for values in state.values]

    def _layers(self) -> Iterator[_Block]:
        return (cast(_Block, block) for block in self.blocks)

    @property
    def _size(self) -> int:
        return self.shape.width // self.shape.heads


class _Block(nn.Module):
    """Attention, then a feed-forward; each reads the normalised stream and adds to it."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        width = shape.width
        self._heads = shape.heads
        self.attention_norm = nn.LayerNorm(width, bias=False)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.feed_norm = nn.LayerNorm(width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def read_prompt(self, stream: Tensor, turn: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One layer over prompts [P, T, width]; also their keys and values, [P, heads, T, size]."""
        queries, keys, values = self._project(stream, turn)
        read = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        return self._add(stream, read.transpose(1, 2)), keys, values

    def read_trajectory(
        self, stream: Tensor, turn: Tensor, shared: tuple[Tensor, Tensor], mask: Tensor
    ) -> Tensor:
        """One layer over trajectories [P * n, T, width]; ``mask`` is true where they read."""
        queries, keys, values = self._project(stream, turn)
        keys, values = torch.cat([shared[0], keys], dim=2), torch.cat([shared[1], values], dim=2)
        read = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        return self._add(stream, read.transpose(1, 2))

    def step(
        self,
        stream: Tensor,
        turn: Tensor,
        shared: tuple[Tensor, Tensor],
        padding: Tensor,
        *,
        own: tuple[Tensor, Tensor],
        length: int,
    ) -> Tensor:
        """One layer over one more token each [P, n, width]."""
        queries, keys, values = self._project(stream, turn)  # [P, heads, n, size]
        own[0][:, :, :, length] = keys.transpose(1, 2)
        own[1][:, :, :, length] = values.transpose(1, 2)
        prompt_scores = (queries @ shared[0].transpose(-1, -2)).masked_fill(padding, -torch.inf)
        single = queries.transpose(1, 2).unsqueeze(3)  # [P, n, heads, 1, size]
        own_scores = (single @ own[0][:, :, :, : length + 1].transpose(-1, -2)).squeeze(3).transpose(1, 2)
        scores = torch.cat([prompt_scores, own_scores], dim=-1)
        weights = (scores * queries.shape[-1] ** -0.5).softmax(-1)
        wide = prompt_scores.shape[-1]
        own_weights = weights[..., wide:].transpose(1, 2).unsqueeze(3)
        read = (own_weights @ own[1][:, :, :, : length + 1]).squeeze(3)
        return self._add(stream, read + (weights[..., :wide] @ shared[1]).transpose(1, 2))

    def _project(self, stream: Tensor, turn: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values [rows, heads, T, size], the first two rotated to their places."""
        projected = self.qkv(self.attention_norm(stream)).unflatten(-1, (3 * self._heads, -1))
        turned = _rotate(projected[..., : 2 * self._heads, :], turn).transpose(1, 2)
        queries, keys = turned.chunk(2, dim=1)
        return queries, keys, projected[..., 2 * self._heads :, :].transpose(1, 2)

    def _add(self, stream: Tensor, read: Tensor) -> Tensor:
        stream = stream + self.out(read.flatten(-2))
        added: Tensor = stream + self.down(functional.gelu(self.up(self.feed_norm(stream))))
        return added


def _padding(prompts: PromptState) -> Tensor:
    """Which places of the prompts are padding, [P, T]."""
    width = prompts.cache[0][0].shape[2]
    return torch.arange(width, device=prompts.lengths.device) >= prompts.lengths[:, None]


def _turns(places: Tensor, size: int) -> Tensor:
    """Rotations to places [..., T] as complex numbers [..., T, 1, size / 2]."""
    rates = 1000.0 ** -(torch.arange(size // 2, device=places.device) * 2 / size)
    angles = places[..., None, None] * rates
    return torch.polar(torch.ones_like(angles), angles)


def _rotate(vectors: Tensor, turn: Tensor) -> Tensor:
    """Rotate vectors [..., T, heads, size], two numbers at a time."""
    pairs = torch.view_as_complex(vectors.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turn).flatten(-2)
