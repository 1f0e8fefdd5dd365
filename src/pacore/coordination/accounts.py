"""The account of a run: tokens, calls and warnings, from its trajectories to its result."""

from __future__ import annotations

import time
from collections import Counter

from pacore.coordination.compaction import why_lost
from pacore.events import LostReference
from pacore.types import (
    Calls,
    Problem,
    Result,
    RunStatus,
    RunWarning,
    Trajectory,
    Usage,
)


class Accounts:
    """Sums up a run while it goes."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self.usage = Usage()
        self.calls = Counter[str]()
        self.warnings: list[RunWarning] = []

    def record(self, trajectory: Trajectory) -> None:
        """Count a trajectory, however it ended."""
        self.usage += trajectory.usage
        self.calls["made"] += 1
        self.calls["failed"] += trajectory.status == "failed"
        self.calls["cancelled"] += trajectory.status == "dropped"

    def lost_final(self, trajectory: Trajectory) -> LostReference:
        """Why the last round's trajectory is no answer."""
        reason = (
            why_lost(trajectory) if trajectory.status != "complete" else "it chose none of the candidates"
        )
        return LostReference(trajectory.index, trajectory.status, reason)

    def result(
        self,
        problem: Problem,
        *,
        status: RunStatus,
        answer: str | None,
        final: Trajectory | None,
        agreement: float | None,
    ) -> Result:
        """The result as it goes to the user."""
        return Result(
            id=problem.id,
            status=status,
            answer=answer,
            finish_reason=final.finish_reason
            if final is not None
            else ("stop" if answer is not None else None),
            ttc_tokens=self.usage.completion_tokens,
            usage=self.usage,
            calls=Calls(
                made=self.calls["made"], failed=self.calls["failed"], cancelled=self.calls["cancelled"]
            ),
            wall_s=round(time.monotonic() - self._started, 3),
            warnings=tuple(self.warnings),
            agreement=agreement,
            tool_calls=final.tool_calls if final is not None else (),
            ground_truth=problem.ground_truth,
            carried=problem.carried,
        )
