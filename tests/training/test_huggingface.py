"""Hugging Face models as policies and critics: the same numbers as their own forward pass, and real steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from pacore.data.record import Record, Response
from pacore.data.truths import MathTruth
from pacore.errors import ConfigError
from pacore.training.huggingface import ModelSource, Policy, load_critic, load_policy, load_tokenizer
from pacore.training.local import LocalTraining, train_locally
from pacore.training.rollout import sample, trajectory_outputs
from support.tiny_model import make_tiny_model

PROMPTS = [[1, 5, 6, 2], [1, 2], [1, 7, 8, 9, 10, 2]]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model"))


def records(number: int = 4) -> list[Record]:
    return [
        Record(
            id=f"sum-{place}",
            messages=({"role": "user", "content": f"Add {place} and 1."},),
            truth=MathTruth(answer=str(place + 1)),
            pool=tuple(
                Response(content=str(place + right % 2), reward=float(right % 2)) for right in range(6)
            ),
        )
        for place in range(6, 6 + number)
    ]


def settings(model: Path, **changes: object) -> LocalTraining:
    chosen = {
        "data": "here",
        "model": str(model),
        "prompts": 2,
        "group": 3,
        "limit": 6,
        "low": 2,
        "high": 4,
        "longest_prompt": 400,
        "policy_rate": 1e-3,
        "critic_rate": 1e-3,
        "save_every": 1,
        **changes,
    }
    return LocalTraining(**chosen)  # type: ignore[arg-type]


def test_shared_prompts_give_the_models_own_log_probabilities(tiny: Path) -> None:
    policy = load_policy(ModelSource(name=str(tiny)))
    rollout = sample(policy, PROMPTS, 3, limit=7, end=(0,), pad=0, generator=torch.Generator().manual_seed(1))
    scores = trajectory_outputs(policy, rollout).log_softmax(-1)
    again = scores.gather(-1, rollout.tokens[..., None]).squeeze(-1)
    assert torch.allclose(again[rollout.mask], rollout.log_probs[rollout.mask], atol=1e-4)
    for place, prompt in enumerate(PROMPTS):
        for row in range(3):
            tokens = rollout.tokens[place, row][rollout.mask[place, row]].tolist()
            with torch.no_grad():
                logits = policy.model(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1]
            own = logits.log_softmax(-1)[range(len(tokens)), tokens]
            assert torch.allclose(rollout.log_probs[place, row, : len(tokens)], own, atol=1e-4)


def test_gradients_flow_through_the_shared_prompt(tiny: Path) -> None:
    policy = load_policy(ModelSource(name=str(tiny)))
    rollout = sample(policy, [[1, 5, 2]], 2, limit=4, end=(0,), pad=0, generator=torch.Generator())
    trajectory_outputs(policy, rollout)[rollout.mask].sum().backward()
    assert all(parameter.grad is not None for parameter in policy.parameters())
    # Token 5 stands in the prompt alone.
    embedding = policy.model.get_input_embeddings().weight
    assert embedding.grad[5].abs().sum() > 0


def test_a_critic_begins_at_zero_and_has_the_backbone(tiny: Path) -> None:
    critic = load_critic(ModelSource(name=str(tiny)))
    state = critic.read_prompts(torch.tensor([[1, 2]]), torch.tensor([2]))
    assert state.last.tolist() == [[0.0]]


def test_yarn_stretches_the_window(tiny: Path) -> None:
    policy = load_policy(ModelSource(name=str(tiny), yarn=2.0))
    assert policy.model.config.max_position_embeddings == 512
    assert policy.model.config.rope_parameters["rope_type"] == "yarn"
    assert policy.model.config.rope_parameters["original_max_position_embeddings"] == 256


def test_a_run_that_was_stopped_goes_on_to_the_same_metrics(tiny: Path, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train_locally(settings(tiny, iterations=3), records(), whole)
    train_locally(settings(tiny, iterations=1), records(), parts)
    train_locally(settings(tiny, iterations=3), records(), parts)
    one, two = (
        [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        for folder in (whole, parts)
    )
    for name in (
        "iteration",
        "reward",
        "policy_loss",
        "value_loss",
        "entropy",
        "message_accuracy",
        "majority",
    ):
        assert [line[name] for line in one] == [line[name] for line in two]
    assert isinstance(load_policy(ModelSource(name=str(parts / "model"))), Policy)


def test_other_settings_in_the_same_folder_are_refused(tiny: Path, tmp_path: Path) -> None:
    train_locally(settings(tiny, iterations=1), records(), tmp_path)
    with pytest.raises(ConfigError, match="group = 3, now it is 5"):
        train_locally(settings(tiny, iterations=1, group=5), records(), tmp_path)


def test_a_prompt_that_does_not_fit_is_named(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"record 'sum-\d' with \d messages has \d+ tokens, more than 10"):
        train_locally(settings(tiny, iterations=1, longest_prompt=10), records(), tmp_path)


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot load"):
        load_tokenizer(ModelSource(name=str(tmp_path / "nowhere")))
