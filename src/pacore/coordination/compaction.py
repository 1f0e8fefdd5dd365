"""Compaction: from all that a trajectory generated to the message the next round reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from pacore.config import unknown_name
from pacore.coordination.prompt import summary_messages
from pacore.errors import ConfigError
from pacore.sampling.sampler import CHARS_PER_TOKEN
from pacore.types import ChatMessage, Problem, RoundSpec, Trajectory

_WHY = {
    "truncated": "cut off at its limit of tokens",
    "reasoning_only": "reasoning without a conclusion",
    "empty": "an empty answer",
    "unclosed": "thinking that was never closed",
    "dropped": "dropped while it was thinking",
}


class Compaction(Protocol):
    """One trajectory to one message, or to none: the seam at which users add their own."""

    def follow_up(self, problem: Problem, trajectory: Trajectory) -> tuple[ChatMessage, ...] | None:
        """The chat of one more call that the compaction needs, or ``None``."""

    def message(self, trajectory: Trajectory, followed: Trajectory | None) -> str | None:
        """The message, given what the follow-up call generated; ``None`` where there is none to keep."""


class Conclusion:
    """Keep the conclusion, drop the reasoning: the method's own compaction."""

    def follow_up(self, problem: Problem, trajectory: Trajectory) -> None:
        """No further call."""

    def message(self, trajectory: Trajectory, followed: Trajectory | None) -> str | None:
        """The conclusion of a trajectory that came to one."""
        return conclusion_of(trajectory) if trajectory.status == "complete" else None


class Tail:
    """Keep the last tokens of the whole trajectory, finished or not (Markovian thinking)."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens

    def follow_up(self, problem: Problem, trajectory: Trajectory) -> None:
        """No further call."""

    def message(self, trajectory: Trajectory, followed: Trajectory | None) -> str | None:
        """The end of the text; the trajectory's own characters per token say where it begins."""
        text = whole_text(trajectory)
        tokens = trajectory.usage.completion_tokens
        per_token = len(text) / tokens if tokens else CHARS_PER_TOKEN
        return text[-max(1, round(self._tokens * per_token)) :] or None


class Summary:
    """Let the model condense its own trajectory with one more call (parallel, distil, refine)."""

    def follow_up(self, problem: Problem, trajectory: Trajectory) -> tuple[ChatMessage, ...] | None:
        """The call that condenses a trajectory with a conclusion."""
        if trajectory.status != "complete":
            return None
        return summary_messages(problem, whole_text(trajectory))

    def message(self, trajectory: Trajectory, followed: Trajectory | None) -> str | None:
        """The summary, or the plain conclusion where no summary could be had."""
        if followed is not None and followed.status == "complete":
            return conclusion_of(followed)
        return conclusion_of(trajectory) if trajectory.status == "complete" else None


class Whole:
    """Keep everything, reasoning included: the paper's ablation without compaction."""

    def follow_up(self, problem: Problem, trajectory: Trajectory) -> None:
        """No further call."""

    def message(self, trajectory: Trajectory, followed: Trajectory | None) -> str | None:
        """All of the text, whatever ended it."""
        return whole_text(trajectory) or None


def compaction_for(spec: RoundSpec, extra: Mapping[str, Compaction] | None = None) -> Compaction:
    """The compaction that a round asks for; ``extra`` holds a user's own by name.

    Raises ConfigError for a name that is neither.
    """
    known: dict[str, Compaction] = {
        "conclusion": Conclusion(),
        "tail": Tail(spec.tail_tokens),
        "summary": Summary(),
        "none": Whole(),
        **(extra or {}),
    }
    if spec.compact not in known:
        raise ConfigError(unknown_name("compaction", spec.compact, known))
    return known[spec.compact]


def conclusion_of(trajectory: Trajectory) -> str | None:
    """The conclusion; of a trajectory that only calls tools, the calls as JSON."""
    if trajectory.content.strip():
        return trajectory.content
    if trajectory.tool_calls:
        return msgspec.json.encode([call["function"] for call in trajectory.tool_calls]).decode()
    return None


def whole_text(trajectory: Trajectory) -> str:
    """Reasoning and conclusion as one text."""
    return "\n\n".join(part for part in (trajectory.reasoning, trajectory.content) if part.strip())


def why_lost(trajectory: Trajectory) -> str:
    """Why a trajectory left no message, in words."""
    return trajectory.error or _WHY.get(trajectory.status, "nothing that could be kept")
