"""A watcher that keeps what it is told."""

from __future__ import annotations

from typing import Any

from pacore.problems import read_problem
from pacore.sampling.sampler import Call, Prompt
from pacore.types import SamplingParams


class Watching:
    """Keeps everything a sampler tells."""

    def __init__(self) -> None:
        self.starts = 0
        self.content = ""
        self.reasoning = ""
        self.retries: list[tuple[int, str, float]] = []

    def started(self) -> None:
        self.starts += 1

    def text(self, content: str, reasoning: str) -> None:
        self.content += content
        self.reasoning += reasoning

    def retrying(self, attempt: int, reason: str, wait_s: float, generated_tokens: int) -> None:
        self.retries.append((attempt, reason, wait_s))
        self.content = self.reasoning = ""


def a_call(question: str = "How many divisors has 360?", **changes: Any) -> Call:
    """A first-round call, with the fields given changed."""
    fields: dict[str, Any] = {
        "problem_id": "p",
        "round": 1,
        "index": 0,
        "prompt": Prompt(read_problem(question).messages),
        "sampling": SamplingParams(),
        "seed": 7,
    }
    return Call(**{**fields, **changes})
