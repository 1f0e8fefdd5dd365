"""What each trajectory of a round is asked: its references, their order, its prompt, seed and cap."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import msgspec

from pacore.coordination.fit import fit_cap, fit_references
from pacore.coordination.prompt import render_synthesis, select_messages, synthesis_messages
from pacore.sampling.sampler import Call, Capabilities, Prompt
from pacore.seeds import derive_random, derive_seed
from pacore.types import (
    ChatMessage,
    CompactMessage,
    Problem,
    Purpose,
    Reference,
    RoundSpec,
    SamplingParams,
)

MessageBuilder = Callable[[Problem, Sequence[str]], tuple[ChatMessage, ...]]

_BUILDERS: dict[Purpose, MessageBuilder] = {"reason": synthesis_messages, "select": select_messages}


@dataclass(frozen=True, slots=True)
class Reading:
    """What a trajectory reads, made to fit: its references, the prompt with them, and the cap left."""

    references: tuple[Reference, ...]
    prompt: Prompt
    sampling: SamplingParams


class RoundPlan:
    """Plans the calls of one round. Trajectories with the same references share one encoded prompt.

    ``trims`` says in words how references were made to fit the window, if they had to be.
    """

    def __init__(
        self,
        problem: Problem,
        spec: RoundSpec,
        number: int,
        sources: Sequence[CompactMessage],
        *,
        purpose: Purpose,
        sampling: SamplingParams,
        seed: int,
    ) -> None:
        self._problem = problem
        self._spec = spec
        self._number = number
        self._purpose: Purpose = purpose
        self._sampling = sampling
        self._seed = seed
        self._ordered = ordered_sources(problem.id, number, sources, seed)
        self._readings: dict[Hashable, Reading] = {}
        self.trims: list[str] = []

    def plan(self, index: int, capabilities: Capabilities) -> Call:
        """The call of trajectory ``index``, fitted to what is known of its endpoint now."""
        sources = self._sources_of(index)
        shared = sources is self._ordered
        key = (capabilities.window, capabilities.chars_per_token, None if shared else index)
        reading = self._readings.get(key)
        if reading is None:
            reading = self._readings[key] = self._read(sources, capabilities)
        return Call(
            problem_id=self._problem.id,
            round=self._number,
            index=index,
            purpose=self._purpose,
            prompt=reading.prompt,
            sampling=reading.sampling,
            seed=derive_seed(self._seed, self._problem.id, self._number, index),
            references=reading.references,
        )

    def _read(self, sources: Sequence[CompactMessage], capabilities: Capabilities) -> Reading:
        max_tokens = self._sampling.max_tokens
        fitted = fit_references(
            sources,
            fixed_chars=self._fixed_chars if sources else 0,
            max_tokens=max_tokens,
            capabilities=capabilities,
        )
        if fitted.trimmed is not None and fitted.trimmed not in self.trims:
            self.trims.append(fitted.trimmed)
        prompt = Prompt(prompt_messages(self._problem, self._purpose, fitted.texts))
        cap = fit_cap(max_tokens, prompt.chars, capabilities)
        return Reading(fitted.references, prompt, msgspec.structs.replace(self._sampling, max_tokens=cap))

    def _sources_of(self, index: int) -> Sequence[CompactMessage]:
        reads = self._spec.reads
        if reads == "all" or reads >= len(self._ordered) or self._purpose == "select":
            return self._ordered
        draw = derive_random("reads", self._seed, self._problem.id, self._number, index)
        return draw.sample(self._ordered, reads)

    @property
    def _fixed_chars(self) -> int:
        chars = Prompt(self._problem.messages).chars
        return chars + len(render_synthesis("", []))


def prompt_messages(problem: Problem, purpose: Purpose, texts: Sequence[str]) -> tuple[ChatMessage, ...]:
    """The chat of a call with this purpose that reads ``texts``."""
    return _BUILDERS[purpose](problem, texts)


def ordered_sources(
    problem_id: str, number: int, sources: Sequence[CompactMessage], seed: int
) -> list[CompactMessage]:
    """The round's sources in their order: it follows from run seed, problem and round alone.

    Neither length nor time of arrival has a say, so positions carry no information, and all
    trajectories that read everything share a prompt (and the endpoint's prefix cache).
    """
    ordered = sorted(sources, key=lambda message: (message.round, message.index))
    derive_random("order", seed, problem_id, number).shuffle(ordered)
    return ordered
