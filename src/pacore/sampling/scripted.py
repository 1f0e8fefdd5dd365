"""A sampler that plays a script: the same answers, latencies and faults every time, and no model.

For tests, demonstrations, and trying a schedule before paying for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from pacore.sampling.sampler import Call, Capabilities, Watcher, classify, estimate_usage
from pacore.types import Trajectory, Usage


@dataclass(frozen=True, kw_only=True)
class Line:
    """What the script answers to one call.

    ``fault`` is raised instead of answering. ``seconds`` pass before the answer; ``pieces`` parts the
    text in so many for live progress.
    """

    content: str = ""
    reasoning: str = ""
    finish_reason: str = "stop"
    closed: bool = True
    tool_calls: tuple[dict[str, Any], ...] = ()
    usage: Usage | None = None
    seconds: float = 0.0
    pieces: int = 1
    fault: Exception | None = None


Script: TypeAlias = Callable[[Call], Line | str | Awaitable[Line | str]]
"""Says what a call is answered; a plain string is a conclusion. May be a coroutine function."""


class ScriptedSampler:
    """Plays ``script``, and keeps the calls it got in ``calls``, in their order of arrival."""

    def __init__(self, script: Script | Iterable[Line | str], *, window: int | None = None) -> None:
        self._script = script if callable(script) else _in_turn(script)
        self._capabilities = Capabilities(window=window)
        self.calls: list[Call] = []

    @property
    def capabilities(self) -> Capabilities:
        """Only the window is known."""
        return self._capabilities

    async def sample(self, call: Call, watcher: Watcher) -> Trajectory:
        """Play the line for ``call``."""
        self.calls.append(call)
        answer = self._script(call)
        line = answer if isinstance(answer, (Line, str)) else await answer
        if isinstance(line, str):
            line = Line(content=line)
        for piece in range(line.pieces):
            if line.seconds:
                await asyncio.sleep(line.seconds / line.pieces)
            watcher.text(_piece(line.content, piece, line.pieces), _piece(line.reasoning, piece, line.pieces))
        if line.fault is not None:
            raise line.fault
        usage = line.usage or estimate_usage(
            call.prompt.chars, line.content, line.reasoning, self._capabilities.chars_per_token
        )
        return call.trajectory(
            classify(
                line.content,
                line.reasoning,
                finish_reason=line.finish_reason,
                tool_calls=line.tool_calls,
                closed=line.closed,
            ),
            content=line.content,
            reasoning=line.reasoning,
            finish_reason=line.finish_reason,
            tool_calls=line.tool_calls,
            usage=usage,
            endpoint="scripted",
            model="scripted",
        )


def _in_turn(lines: Iterable[Line | str]) -> Script:
    rest = iter(lines)

    def script(call: Call) -> Line | str:
        try:
            return next(rest)
        except StopIteration:
            raise AssertionError(
                f"the script has no line left for round {call.round}, index {call.index}"
            ) from None

    return script


def _piece(text: str, number: int, pieces: int) -> str:
    return text[len(text) * number // pieces : len(text) * (number + 1) // pieces]
