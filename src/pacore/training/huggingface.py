"""Any causal model of Hugging Face as a policy or critic: loading, and prompts read once for a group."""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pacore.errors import ConfigError, MissingExtraError
from pacore.training.network import Network, PromptState

try:
    from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer, DynamicCache
except ImportError as error:
    raise MissingExtraError("training a Hugging Face model", "train") from error


class Policy(Network):
    """A causal language model; its outputs are logits over the vocabulary.

    Dropout stays off: log-probabilities must be the same in sampling and in the update.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model.eval()
        taken = inspect.signature(model.base_model.forward).parameters
        self._cache_argument = "cache" if "cache" in taken else "past_key_values"

    def train(self, mode: bool = True) -> Policy:
        """Stay without dropout whatever ``mode`` is."""
        return self

    def read_prompts(self, tokens: Tensor, lengths: Tensor) -> PromptState:
        """Read prompts [P, T], padded on the right."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        cache = DynamicCache(config=self.model.config)
        hidden = self._hidden(
            input_ids=tokens,
            attention_mask=(places < lengths[:, None]).long(),
            position_ids=places.expand_as(tokens),
            cache=cache,
        )
        rows = torch.arange(len(tokens), device=tokens.device)
        return PromptState(cache, lengths, self._outputs(hidden[rows, lengths - 1]))

    def read_trajectories(self, prompts: PromptState, tokens: Tensor) -> Tensor:
        """The outputs at each token of trajectories [P, n, T]."""
        state = self.begin(prompts, tokens.shape[1], tokens.shape[2])
        return self._read(state, tokens)

    def begin(self, prompts: PromptState, number: int, limit: int) -> _Growing:
        """The prompts' keys and values once for each of ``number`` trajectories."""
        cache = copy.copy(prompts.cache)
        cache.layers = [copy.copy(layer) for layer in prompts.cache.layers]
        width = cache.get_seq_length()
        cache.batch_repeat_interleave(number)
        places = torch.arange(width, device=prompts.lengths.device)
        known = (places < prompts.lengths[:, None]).long().repeat_interleave(number, 0)
        return _Growing(cache, prompts.lengths.repeat_interleave(number), known, number)

    def step(self, state: _Growing, tokens: Tensor) -> Tensor:
        """Read one more token of each trajectory [P, n]."""
        return self._read(state, tokens[..., None]).squeeze(2)

    def keep(self, state: _Growing, rows: Tensor) -> None:
        """Go on with some prompts alone."""
        number = state.number
        chosen = (rows[:, None] * number + torch.arange(number, device=rows.device)).flatten()
        state.cache.batch_select_indices(chosen)
        state.lengths = state.lengths[chosen]
        state.known = state.known[chosen]

    def _read(self, state: _Growing, tokens: Tensor) -> Tensor:
        count, number, length = tokens.shape
        flat = tokens.flatten(0, 1)
        places = torch.arange(state.length, state.length + length, device=tokens.device)
        state.known = torch.cat([state.known, torch.ones_like(flat)], dim=1)
        hidden = self._hidden(
            input_ids=flat,
            attention_mask=state.known,
            position_ids=state.lengths[:, None] + places,
            cache=state.cache,
        )
        state.length += length
        return self._outputs(hidden).view(count, number, length, -1)

    def _hidden(self, *, cache: Any, **inputs: Tensor) -> Tensor:
        # Later versions of transformers call the argument anew, and warn of the old name.
        named = {self._cache_argument: cache}
        hidden: Tensor = self.model.base_model(**inputs, **named, use_cache=True).last_hidden_state
        return hidden

    def _outputs(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.model.get_output_embeddings()(hidden)
        return logits


class Critic(Policy):
    """The backbone of a causal model with one value a token instead of its logits.

    The values begin at 0: what is not known yet moves no advantage.
    """

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.head = nn.Linear(model.config.get_text_config().hidden_size, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def _outputs(self, hidden: Tensor) -> Tensor:
        values: Tensor = self.head(hidden.to(self.head.weight.dtype))
        return values


@dataclass(slots=True)
class _Growing:
    """Trajectories in the making: P * n rows, each prompt's together."""

    cache: Any
    lengths: Tensor
    known: Tensor
    number: int
    length: int = 0


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """Where a model is loaded from.

    ``name`` is a folder or a hub's name; ``gguf`` a GGUF file in that folder. ``yarn`` stretches the
    window by a factor over ``window`` tokens (PaCoRe-8B: 2).
    """

    name: str
    gguf: str | None = None
    yarn: float | None = None
    device: str = "cpu"

    def _arguments(self) -> dict[str, Any]:
        return {"gguf_file": self.gguf} if self.gguf else {}


def load_tokenizer(source: ModelSource) -> Any:
    """The model's tokenizer. Raises ConfigError where there is none, or it has no chat template."""
    tokenizer = _load(AutoTokenizer, source)
    if tokenizer.chat_template is None:
        raise ConfigError(f"the tokenizer of {source.name} has no chat template; training needs one")
    return tokenizer


def load_policy(source: ModelSource) -> Policy:
    """The model as a policy, weights in float32."""
    return Policy(_stretched(source, AutoModelForCausalLM)).to(source.device)


def load_critic(source: ModelSource) -> Critic:
    """The same model's backbone as a critic, weights in float32."""
    return Critic(_stretched(source, AutoModel)).to(source.device)


def save_policy(policy: Policy, tokenizer: Any, folder: Path) -> None:
    """Write the model as Hugging Face stores one: any engine serves it from there."""
    policy.model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _stretched(source: ModelSource, kind: Any) -> Any:
    if source.yarn is None:
        return _load(kind, source, dtype=torch.float32)
    from transformers import AutoConfig

    config = _load(AutoConfig, source)
    window = config.max_position_embeddings
    rope = dict(getattr(config, "rope_parameters", None) or {})
    config.rope_parameters = {
        **rope,
        "rope_type": "yarn",
        "factor": source.yarn,
        "original_max_position_embeddings": window,
    }
    config.max_position_embeddings = int(window * source.yarn)
    return _load(kind, source, dtype=torch.float32, config=config)


def _load(kind: Any, source: ModelSource, **arguments: Any) -> Any:
    try:
        return kind.from_pretrained(source.name, **source._arguments(), **arguments)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot load {source.name!r}: {str(error).splitlines()[0]}") from error
