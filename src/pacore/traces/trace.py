"""A trace: the fold of a run's events, as everything that shows or exports a run reads it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from pacore.coordination.compaction import whole_text
from pacore.coordination.fit import shown_text
from pacore.coordination.planning import prompt_messages
from pacore.coordination.prompt import summary_messages
from pacore.errors import JournalError
from pacore.events import (
    Event,
    LostReference,
    RoundFinished,
    RoundStarted,
    RunFinished,
    RunStarted,
    TrajectoryFinished,
    Warned,
)
from pacore.traces.journal import read_events
from pacore.types import (
    ChatMessage,
    CompactMessage,
    Problem,
    Purpose,
    Result,
    RunWarning,
    Schedule,
    Trajectory,
)


@dataclass
class RoundTrace:
    """One round: what was thought, and what was kept of it."""

    number: int
    width: int
    purpose: Purpose
    trajectories: dict[int, Trajectory] = field(default_factory=dict)
    summaries: dict[int, Trajectory] = field(default_factory=dict)
    messages: tuple[CompactMessage, ...] = ()
    lost: tuple[LostReference, ...] = ()
    skipped: int = 0
    agreement: float | None = None


@dataclass
class Trace:
    """A run as far as it has come; ``result`` is ``None`` while it goes on."""

    problem: Problem
    schedule: Schedule
    seed: int
    version: str
    started_at: float
    rounds: dict[int, RoundTrace] = field(default_factory=dict)
    warnings: list[RunWarning] = field(default_factory=list)
    result: Result | None = None

    def message(self, round_number: int, index: int) -> CompactMessage | None:
        """The message that trajectory ``index`` of a round left, if any."""
        found = self.rounds.get(round_number)
        return next((m for m in found.messages if m.index == index), None) if found is not None else None

    def prompt_of(self, trajectory: Trajectory) -> tuple[ChatMessage, ...]:
        """The exact chat that a trajectory read, rendered again from its references.

        Raises JournalError where the trace lacks a message that it read.
        """
        if trajectory.purpose == "summarize":
            summarised = self.rounds[trajectory.round].trajectories[trajectory.index]
            return summary_messages(self.problem, whole_text(summarised))
        texts = []
        for reference in trajectory.references:
            message = self.message(reference.round, reference.index)
            if message is None:
                raise JournalError(f"the trace lacks message {reference.index} of round {reference.round}")
            texts.append(shown_text(message, reference))
        return prompt_messages(self.problem, trajectory.purpose, texts)

    def export(self) -> dict[str, Any]:
        """The run as one JSON object."""
        return {
            "problem": msgspec.to_builtins(self.problem),
            "schedule": msgspec.to_builtins(self.schedule),
            "seed": self.seed,
            "pacore_version": self.version,
            "started_at": self.started_at,
            "rounds": [_exported_round(self.rounds[number]) for number in sorted(self.rounds)],
            "warnings": msgspec.to_builtins(self.warnings),
            "result": None if self.result is None else self.result.record(),
        }


def fold_events(events: Iterable[Event]) -> Trace | None:
    """Fold events into a trace; ``None`` where there is not even a first one.

    A resumed run starts again within the same journal: what it repeats replaces, what it replays is
    still there from before.
    """
    trace: Trace | None = None
    for event in events:
        if isinstance(event, RunStarted):
            earlier = trace.rounds if trace is not None else {}
            trace = Trace(
                problem=event.problem,
                schedule=event.schedule,
                seed=event.seed,
                version=event.version,
                started_at=event.started_at if trace is None else trace.started_at,
                rounds=earlier,
            )
        elif trace is not None:
            _fold(trace, event)
    return trace


def read_trace(path: Path) -> Trace:
    """The trace in a journal. Raises JournalError where there is none."""
    trace = fold_events(read_events(path))
    if trace is None:
        raise JournalError(f"{path} holds no run")
    return trace


def _fold(trace: Trace, event: Event) -> None:
    if isinstance(event, RoundStarted):
        fresh = RoundTrace(event.round, event.width, event.purpose)
        kept = trace.rounds.get(event.round)
        if kept is not None:
            fresh.trajectories, fresh.summaries = kept.trajectories, kept.summaries
        trace.rounds[event.round] = fresh
    elif isinstance(event, TrajectoryFinished):
        thought = event.trajectory
        found = trace.rounds[thought.round]
        (found.summaries if thought.purpose == "summarize" else found.trajectories)[thought.index] = thought
    elif isinstance(event, RoundFinished):
        found = trace.rounds[event.round]
        found.messages, found.lost = event.messages, event.lost
        found.skipped, found.agreement = event.skipped, event.agreement
    elif isinstance(event, Warned):
        trace.warnings.append(event.warning)
    elif isinstance(event, RunFinished):
        trace.result = event.result


def _exported_round(found: RoundTrace) -> dict[str, Any]:
    exported: dict[str, Any] = msgspec.to_builtins(
        {
            "round": found.number,
            "width": found.width,
            "purpose": found.purpose,
            "trajectories": [found.trajectories[index] for index in sorted(found.trajectories)],
            "summaries": [found.summaries[index] for index in sorted(found.summaries)],
            "messages": found.messages,
            "lost": found.lost,
            "skipped": found.skipped,
            "agreement": found.agreement,
        }
    )
    return exported
