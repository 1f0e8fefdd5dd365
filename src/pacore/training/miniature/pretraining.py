"""The miniature's base model: taught by the task's teacher, from nothing."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import torch

from pacore.seeds import derive_random, derive_seed
from pacore.training.miniature import locks
from pacore.training.miniature.transformer import Transformer, TransformerShape
from pacore.training.rollout import Rollout, pad_rows, trajectory_outputs


@dataclass(frozen=True, kw_only=True)
class PretrainingSettings:
    """How the base model is taught; a step reads ``prompts`` problems with ``group`` trajectories each."""

    steps: int = 600
    prompts: int = 32
    group: int = 4
    rate: float = 4e-3
    warmup: int = 40
    bare: float = 0.4
    most_references: int = 32
    seed: int = 0


def pretrain(
    settings: PretrainingSettings,
    report: Callable[[int, float], None],
    shape: TransformerShape | None = None,
) -> Transformer:
    """Teach a model by cross-entropy on the teacher's trajectories; ``report`` is told (step, loss)."""
    generator = torch.Generator().manual_seed(derive_seed("pretraining", settings.seed))
    vocabulary = len(locks.VOCABULARY)
    model = Transformer(shape or TransformerShape(vocabulary=vocabulary, outputs=vocabulary), generator)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.rate, betas=(0.9, 0.98), weight_decay=0.01)
    for step in range(settings.steps):
        batch = _batch(settings, derive_random("pretraining", settings.seed, step))
        for group in optimizer.param_groups:
            group["lr"] = _rate(settings, step)
        logits = trajectory_outputs(model, batch)
        loss = torch.nn.functional.cross_entropy(logits[batch.mask], batch.tokens[batch.mask])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        report(step, loss.item())
    return model


def _rate(settings: PretrainingSettings, step: int) -> float:
    if step < settings.warmup:
        return settings.rate * (step + 1) / settings.warmup
    done = (step - settings.warmup) / max(1, settings.steps - settings.warmup)
    return settings.rate * (0.05 + 0.95 * (1 + math.cos(math.pi * done)) / 2)


def _references(settings: PretrainingSettings, draw: random.Random) -> int:
    """How many references a prompt has: one to ``most_references``, few as often as many."""
    return int(math.exp(draw.uniform(0, math.log(settings.most_references + 0.99))))


def _batch(settings: PretrainingSettings, draw: random.Random) -> Rollout:
    prompts, trajectories = [], []
    for _ in range(settings.prompts):
        problem = locks.make_problem(draw)
        size = 0 if draw.random() < settings.bare else _references(settings, draw)
        references = [locks.draw_reference(problem, draw) for _ in range(size)]
        prompts.append(locks.prompt_tokens(problem, [locks.code_text(code) for code in references]))
        trajectories += [locks.teach(problem, references, draw) for _ in range(settings.group)]
    tokens, lengths = pad_rows(prompts, locks.PAD_TOKEN)
    taught, sizes = pad_rows(trajectories, locks.PAD_TOKEN)
    mask = torch.arange(taught.shape[1]) < sizes[:, None]
    shape = (settings.prompts, settings.group, -1)
    ended = torch.ones(shape[:2], dtype=torch.bool)
    empty = torch.zeros(taught.shape).view(shape)
    return Rollout(tokens, lengths, taught.view(shape), mask.view(shape), empty, ended)
