"""Training a Hugging Face model on one device: records in, a run directory and a model out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from pacore.data.record import Record
from pacore.seeds import derive_seed
from pacore.training.grading import Grader
from pacore.training.huggingface import ModelSource, load_critic, load_policy, load_tokenizer, save_policy
from pacore.training.ppo import PPO, PPOSettings
from pacore.training.run import Report, TrainingRun
from pacore.training.synthesis import SynthesisTask
from pacore.training.text_environment import TextEnvironment
from pacore.verifiers.math.equivalence import MathEquivalence

MODEL = "model"


class LocalTraining(Struct, frozen=True, kw_only=True):
    """All settings of a run, as its folder keeps them.

    ``data`` names where the records are from; lengths are in tokens; |M| ~ U(low, high).
    """

    data: str
    model: str
    gguf: str | None = None
    yarn: float | None = None
    device: str = "cpu"
    iterations: int = 250
    prompts: int = 16
    group: int = 64
    limit: int = 8192
    longest_prompt: int = 32768
    low: int = 16
    high: int = 24
    policy_rate: float = 1e-6
    critic_rate: float = 5e-6
    gamma: float = 1.0
    lam: float = 1.0
    micro: int = 1
    truncation: Literal["bootstrap", "zero"] = "bootstrap"
    unverifiable: Literal["zero", "drop"] = "zero"
    precision: Literal["float32", "bfloat16"] = "float32"
    implicit_thinking: bool = False
    save_every: int = 10
    seed: int = 0

    @property
    def source(self) -> ModelSource:
        """Where the model is loaded from."""
        return ModelSource(name=self.model, gguf=self.gguf, yarn=self.yarn, device=self.device)


def train_locally(
    settings: LocalTraining, records: Iterable[Record], out: Path, report: Report | None = None
) -> Path:
    """Train and save the model; goes on from the checkpoint in ``out``. Returns the model's folder.

    Raises ConfigError for settings, records or a model that cannot be used, TrainingError where training
    cannot go on; the last checkpoint is intact then.
    """
    kept = msgspec.to_builtins(settings)
    # How far it goes, and how often it is saved, may change from one sitting to the next.
    del kept["iterations"], kept["save_every"]
    run = TrainingRun(out, kept)
    tokenizer = load_tokenizer(settings.source)
    task = SynthesisTask(low=settings.low, high=settings.high, seed=settings.seed)
    with Grader(implicit_thinking=settings.implicit_thinking) as grader:
        environment = TextEnvironment(
            list(records),
            task,
            tokenizer,
            grader,
            prompts=settings.prompts,
            longest=settings.longest_prompt,
            equivalence=MathEquivalence(),
        )
        policy, critic = load_policy(settings.source), load_critic(settings.source)
        ppo = PPO(policy, critic, environment, _ppo_settings(settings, tokenizer.eos_token_id, policy))
        run.train(ppo, settings.iterations, every=settings.save_every, report=report)
    save_policy(policy, tokenizer, out / MODEL)
    return out / MODEL


def _ppo_settings(settings: LocalTraining, end: int, policy: object) -> PPOSettings:
    # A chat model may end its turn with another token than the tokenizer's end of text.
    named = getattr(getattr(policy, "model", None), "generation_config", None)
    ends = getattr(named, "eos_token_id", None)
    known = ends if isinstance(ends, list) else [] if ends is None else [ends]
    return PPOSettings(
        group=settings.group,
        limit=settings.limit,
        end=tuple(dict.fromkeys([end, *known])),
        pad=end,
        policy_rate=settings.policy_rate,
        critic_rate=settings.critic_rate,
        gamma=settings.gamma,
        lam=settings.lam,
        micro=settings.micro,
        truncation=settings.truncation,
        unverifiable=settings.unverifiable,
        precision=settings.precision,
        seed=derive_seed("sampling", settings.seed),
    )
