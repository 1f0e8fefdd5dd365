"""The miniature's pipeline, stage by stage: each reads what the stages before left in the folder.

``base.safetensors``  the pretrained model          ``pools.json``   its pools, 24 trajectories a problem
``NAME/``             a training run                ``NAME.safetensors``  what it trained
``scores/``           evaluations
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch
from msgspec import Struct

from pacore.seeds import derive_random, derive_seed
from pacore.training.miniature import locks
from pacore.training.miniature.locks import LockProblem
from pacore.training.miniature.pools import LocksEnvironment, Pool, fill_pools, stage_one, stage_two
from pacore.training.miniature.pretraining import PretrainingSettings, pretrain
from pacore.training.miniature.thinking import read_thought
from pacore.training.miniature.transformer import Transformer, TransformerShape
from pacore.training.miniature.weights import load_model, save_model
from pacore.training.ppo import PPO, PPOSettings
from pacore.training.run import TrainingRun, write_whole

Say = Callable[[str], None]


class MiniatureSettings(Struct, frozen=True, kw_only=True):
    """The size of a miniature.

    ``training`` and ``held_out`` are problems; ``first`` and ``second`` iterations of PPO on the two stages
    (``prompts`` × ``group`` trajectories each); ``side`` those of the comparisons. |M| ~ U(low, high).
    """

    pretraining: int = 600
    training: int = 900
    pool: int = 24
    held_out: int = 2000
    small: int = 600
    prompts: int = 16
    group: int = 32
    first: int = 60
    second: int = 40
    side: int = 40
    low: int = 4
    high: int = 20
    policy_rate: float = 1e-3
    critic_rate: float = 1e-3
    replay_weight: float = 0.5
    seed: int = 0


QUICK = MiniatureSettings(pretraining=400, training=300, held_out=300, small=150, first=20, second=5, side=10)
"""The same in less than half the time, and noisier."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training run of the miniature: from which model, on which episodes, for how long."""

    name: str
    begins: str
    low: int
    high: int
    iterations: int
    replay: float
    second_stage: bool = False


def main_runs(settings: MiniatureSettings) -> list[Training]:
    """The two stages of the method."""
    low, high, weight = settings.low, settings.high, settings.replay_weight
    return [
        Training(name="stage1", begins="base", low=low, high=high, iterations=settings.first, replay=weight),
        Training(
            name="stage2",
            begins="stage1",
            low=low,
            high=high,
            iterations=settings.second,
            replay=weight,
            second_stage=True,
        ),
    ]


def side_runs(settings: MiniatureSettings) -> list[Training]:
    """What the method is compared with: no references at all, |M| fixed, and no replay."""
    fixed = (settings.low + settings.high) // 2
    return [
        Training(
            name="control",
            begins="base",
            low=0,
            high=0,
            iterations=settings.first + settings.second,
            replay=0.0,
        ),
        Training(
            name="fixed",
            begins="base",
            low=fixed,
            high=fixed,
            iterations=settings.side,
            replay=settings.replay_weight,
        ),
        Training(
            name="plain",
            begins="base",
            low=settings.low,
            high=settings.high,
            iterations=settings.side,
            replay=0.0,
        ),
    ]


def problems(settings: MiniatureSettings, name: str, number: int) -> list[LockProblem]:
    """``number`` problems of a set called ``name``; sets of other names share none but by chance."""
    draw = derive_random("problems", settings.seed, name)
    return [locks.make_problem(draw) for _ in range(number)]


def pretrain_base(settings: MiniatureSettings, folder: Path, say: Say) -> None:
    """Teach the base model, on all cores."""
    path = folder / "base.safetensors"
    if path.exists():
        return

    def report(step: int, loss: float) -> None:
        if (step + 1) % 50 == 0:
            say(f"pretraining {step + 1}/{settings.pretraining}: loss {loss:.3f}")

    chosen = PretrainingSettings(steps=settings.pretraining, seed=settings.seed)
    _save(pretrain(chosen, report), path)


def fill_training_pools(settings: MiniatureSettings, folder: Path, say: Say) -> None:
    """The base model's pool of every training problem."""
    path = folder / "pools.json"
    if path.exists():
        return
    model = load_model(folder / "base.safetensors")
    chosen = problems(settings, "training", settings.training)
    pools = fill_pools(model, chosen, settings.pool, seed=derive_seed("pool", settings.seed))
    kept = [[list(thought.tokens) for thought in pool.thoughts] for pool in pools]
    write_whole(path, msgspec.json.encode(kept))
    kept_by_filter = len(stage_one(pools))
    accuracy = sum(pool.accuracy for pool in pools) / len(pools)
    say(f"pools: accuracy {accuracy:.3f}; {kept_by_filter} of {len(pools)} problems pass the stage 1 filter")


def read_pools(settings: MiniatureSettings, folder: Path) -> list[Pool]:
    """The pools as they were kept."""
    kept = msgspec.json.decode((folder / "pools.json").read_bytes(), type=list[list[list[int]]])
    chosen = problems(settings, "training", settings.training)
    return [
        Pool(problem, tuple(read_thought(tokens) for tokens in rows))
        for problem, rows in zip(chosen, kept, strict=True)
    ]


def train(settings: MiniatureSettings, folder: Path, training: Training, say: Say) -> None:
    """Run a training, or go on with it, and keep what it trained."""
    path = folder / f"{training.name}.safetensors"
    if path.exists():
        return
    policy = load_model(folder / f"{training.begins}.safetensors")
    pools = stage_one(read_pools(settings, folder))
    if training.second_stage:
        seed = derive_seed("stage two", settings.seed)
        kept = stage_two(policy, pools, low=training.low, high=training.high, number=8, seed=seed)
        say(f"stage 2 filter: {len(kept)} of {len(pools)} problems")
        pools = kept
    environment = LocksEnvironment(
        pools=pools,
        prompts=min(settings.prompts, len(pools)),
        low=training.low,
        high=training.high,
        seed=derive_seed(training.name, settings.seed),
    )
    ppo = PPO(policy.train(), _critic(settings, training), environment, _ppo_settings(settings, training))

    def report(line: dict[str, float]) -> None:
        if line["iteration"] % 10 == 0:
            shown = " · ".join(
                f"{key} {line[key]:.3f}" for key in ("reward", "majority", "entropy") if key in line
            )
            say(f"{training.name} {line['iteration']:.0f}/{training.iterations}: {shown}")

    run = TrainingRun(folder / training.name, msgspec.to_builtins(settings))
    run.train(ppo, training.iterations, every=20, report=report)
    _save(policy, path)


def _critic(settings: MiniatureSettings, training: Training) -> Transformer:
    shape = TransformerShape(vocabulary=len(locks.VOCABULARY), outputs=1, width=64)
    seed = derive_seed("critic", training.name, settings.seed)
    return Transformer(shape, torch.Generator().manual_seed(seed))


def _ppo_settings(settings: MiniatureSettings, training: Training) -> PPOSettings:
    return PPOSettings(
        group=settings.group,
        limit=locks.LONGEST_TRAJECTORY,
        end=(locks.END_TOKEN,),
        pad=locks.PAD_TOKEN,
        policy_rate=settings.policy_rate,
        critic_rate=settings.critic_rate,
        # The limit is the task's own: a trajectory that never comes to an end has failed.
        truncation="zero",
        micro=4,
        replay_weight=training.replay,
        seed=derive_seed("sampling", training.name, settings.seed),
    )


def _save(model: Transformer, path: Path) -> None:
    partial = path.with_suffix(".partial")
    save_model(model, partial)
    partial.replace(path)
