"""The seam between the method and its tokens: what a sampler is asked, and what it tells meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import msgspec

from pacore.config import Prices
from pacore.types import (
    ChatMessage,
    Purpose,
    Reference,
    SamplingParams,
    Trajectory,
    TrajectoryStatus,
    Usage,
)

CHARS_PER_TOKEN = 4.0
"""Rough size of a token of English or mathematics, used until an endpoint has told better."""


_CUT_OFF = frozenset({"length", "max_tokens", "model_length"})
"""What servers call an answer that ended at its limit: OpenAI and most, Gemini's dialect, Mistral."""


class Prompt:
    """The messages of a call, encoded once however many trajectories share them."""

    def __init__(self, messages: Sequence[ChatMessage]) -> None:
        self.messages = tuple(messages)

    @cached_property
    def encoded(self) -> bytes:
        """The messages as JSON."""
        return msgspec.json.encode(self.messages)

    @cached_property
    def chars(self) -> int:
        """Characters of text in the messages; images and other parts count nothing."""
        return sum(content_chars(message.get("content")) for message in self.messages)


@dataclass(frozen=True, slots=True)
class Call:
    """One trajectory asked of a sampler. ``round`` counts from 1, ``index`` from 0."""

    problem_id: str
    round: int
    index: int
    prompt: Prompt
    sampling: SamplingParams
    seed: int
    purpose: Purpose = "reason"
    references: tuple[Reference, ...] = ()

    def trajectory(self, status: TrajectoryStatus, **generated: Any) -> Trajectory:
        """The trajectory that answers this call; ``generated`` gives the remaining fields."""
        return Trajectory(
            round=self.round,
            index=self.index,
            purpose=self.purpose,
            status=status,
            seed=self.seed,
            sampling=self.sampling,
            references=self.references,
            **generated,
        )


class Watcher(Protocol):
    """Is told how a call goes. Methods must return at once; they run on the event loop."""

    def started(self) -> None:
        """The call has its slot and is being sent."""

    def text(self, content: str, reasoning: str) -> None:
        """More text arrived."""

    def retrying(self, attempt: int, reason: str, wait_s: float, generated_tokens: int) -> None:
        """Attempt ``attempt`` failed, its text is void, and another follows."""


class Unwatched:
    """A watcher for calls that nobody reads along."""

    def started(self) -> None:
        """Nobody waits for it."""

    def text(self, content: str, reasoning: str) -> None:
        """Nobody reads along."""

    def retrying(self, attempt: int, reason: str, wait_s: float, generated_tokens: int) -> None:
        """The sampler's own affair."""


@dataclass(slots=True)
class Capabilities:
    """What was found out about an endpoint, kept for the run.

    ``None`` means not known. ``window`` is in tokens. ``chars_per_token`` is corrected by what the
    endpoint says of prompts that did not fit.
    """

    window: int | None = None
    served_models: tuple[str, ...] = ()
    separates_reasoning: bool | None = None
    implicit_thinking: bool = False
    reasoning_field: str | None = None
    usage_in_stream: bool | None = None
    unsupported: set[str] = field(default_factory=set)
    chars_per_token: float = CHARS_PER_TOKEN
    prices: Prices | None = None

    def prompt_tokens(self, chars: int) -> int:
        """Estimated tokens of a prompt of ``chars`` characters, with room for the chat template."""
        return int(chars / self.chars_per_token) + 64


class Sampler(Protocol):
    """Anything that turns a chat and sampling parameters into a trajectory: the seam users replace.

    ``sample`` raises EndpointError and its kinds for a call that failed; being cancelled, it stops
    generating at once.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What is known about the source of tokens."""

    async def sample(self, call: Call, watcher: Watcher) -> Trajectory:
        """Generate one trajectory."""


def classify(
    content: str,
    reasoning: str,
    *,
    finish_reason: str | None,
    tool_calls: Sequence[object] = (),
    closed: bool = True,
) -> TrajectoryStatus:
    """Whether a trajectory can be a reference, and if not, why."""
    if finish_reason is not None and finish_reason.casefold() in _CUT_OFF:
        return "truncated"
    if not closed:
        return "unclosed"
    if content.strip() or tool_calls:
        return "complete"
    return "reasoning_only" if reasoning.strip() else "empty"


def estimate_usage(prompt_chars: int, content: str, reasoning: str, chars_per_token: float) -> Usage:
    """Usage counted by us, where the endpoint gave none."""
    reasoning_tokens = round(len(reasoning) / chars_per_token)
    return Usage(
        prompt_tokens=round(prompt_chars / chars_per_token),
        completion_tokens=reasoning_tokens + round(len(content) / chars_per_token),
        reasoning_tokens=reasoning_tokens,
        estimated=True,
    )


def content_chars(content: object) -> int:
    """Characters of text in a message's content: a string, a list of parts, or nothing."""
    if isinstance(content, str):
        return len(content)
    if isinstance(content, list):
        return sum(len(part.get("text") or "") for part in content if isinstance(part, dict))
    return 0
