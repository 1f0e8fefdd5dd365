"""What happens in a run, as typed events: the one stream that every reader of a run consumes.

The coordinator yields them in order; the terminal, the journal, the server, the evaluator and the
metrics only read. A trace is the fold of its events. Encoded as JSON, each carries its ``type``.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from pacore.types import (
    CompactMessage,
    Problem,
    Purpose,
    Reference,
    Result,
    RunWarning,
    Schedule,
    Trajectory,
    TrajectoryStatus,
)


class RunStarted(Struct, frozen=True, kw_only=True, tag="run_started"):
    """The first event of a run. ``started_at`` is in seconds since the epoch."""

    problem: Problem
    schedule: Schedule
    seed: int
    started_at: float
    version: str


class RoundStarted(Struct, frozen=True, kw_only=True, tag="round_started"):
    """A round begins; ``width`` trajectories wait for a slot. The finish's call is a round as well."""

    round: int
    width: int
    purpose: Purpose = "reason"


class TrajectoryStarted(Struct, frozen=True, kw_only=True, tag="trajectory_started"):
    """A trajectory has a slot and its call is being sent, with these references in the prompt."""

    round: int
    index: int
    purpose: Purpose
    references: tuple[Reference, ...]


class TrajectoryProgress(Struct, frozen=True, kw_only=True, tag="trajectory_progress"):
    """Text that arrived since the last such event of this trajectory.

    A slow reader gets fewer and longer ones; no text is lost. ``tokens`` is our estimate of the tokens
    generated so far. A retried call begins anew at ``tokens`` near 0.
    """

    round: int
    index: int
    purpose: Purpose
    content: str
    reasoning: str
    tokens: int


class TrajectoryRetrying(Struct, frozen=True, kw_only=True, tag="trajectory_retrying"):
    """An attempt failed and another follows after ``wait_s`` seconds. What it had sent is void."""

    round: int
    index: int
    purpose: Purpose
    attempt: int
    reason: str
    wait_s: float


class TrajectoryFinished(Struct, frozen=True, kw_only=True, tag="trajectory_finished"):
    """A trajectory ended, well or not. The loop goes on only after the reader took this event."""

    trajectory: Trajectory


class LostReference(Struct, frozen=True):
    """A trajectory that left no message, and why."""

    index: int
    status: TrajectoryStatus
    reason: str


class RoundFinished(Struct, frozen=True, kw_only=True, tag="round_finished"):
    """A round is over: the messages it leaves, in order of index, and the trajectories that left none."""

    round: int
    messages: tuple[CompactMessage, ...]
    lost: tuple[LostReference, ...]
    skipped: int = 0
    agreement: float | None = None


class Warned(Struct, frozen=True, kw_only=True, tag="warned"):
    """Something the reader of the result should know; repeated in the result."""

    warning: RunWarning


class RunFinished(Struct, frozen=True, kw_only=True, tag="run_finished"):
    """The last event of a run."""

    result: Result


Event: TypeAlias = (
    RunStarted
    | RoundStarted
    | TrajectoryStarted
    | TrajectoryProgress
    | TrajectoryRetrying
    | TrajectoryFinished
    | RoundFinished
    | Warned
    | RunFinished
)
