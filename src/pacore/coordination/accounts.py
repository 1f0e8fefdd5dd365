"""The account of a run: tokens, calls and warnings, from its trajectories to its result."""

from __future__ import annotations

import time
from collections import Counter

from pacore.coordination.compaction import why_lost
from pacore.coordination.rounds import RoundRun
from pacore.events import LostReference
from pacore.types import (
    Calls,
    Problem,
    Result,
    RoundSpec,
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

    def round_warnings(self, round_run: RoundRun, spec: RoundSpec, number: int) -> list[RunWarning]:
        """What a reader should know of a round that is over."""
        warnings = []
        if round_run.lost:
            reasons = Counter(f"{lost.status}: {lost.reason}" for lost in round_run.lost)
            told = "; ".join(f"{count} × {reason}" for reason, count in reasons.most_common(4))
            warnings.append(
                RunWarning(
                    "lost_references",
                    f"{len(round_run.lost)} of {spec.width} trajectories of round {number} "
                    f"left no message ({told})",
                )
            )
        if round_run.timed_out:
            warnings.append(
                RunWarning("deadline", f"time was up in round {number}; what still thought was dropped")
            )
        if round_run.repeats:
            warnings.append(
                RunWarning(
                    "identical_trajectories",
                    f"{round_run.repeats} of {spec.width} trajectories of round {number} repeat another "
                    "word for word; "
                    "does the endpoint ignore the seed?",
                )
            )
        warnings.extend(self.trim_warnings(round_run, number))
        if round_run.agreed is not None and round_run.skipped:
            warnings.append(
                RunWarning(
                    "agreement_stop",
                    f"the messages agree: {round_run.skipped} calls of round {number} were saved",
                )
            )
        return warnings

    def trim_warnings(self, round_run: RoundRun, number: int) -> list[RunWarning]:
        """That references had to be made to fit the window, if they had to be."""
        if not round_run.plan.trims:
            return []
        told = "; ".join(round_run.plan.trims)
        text = f"the references of round {number} did not fit the window: {told}"
        return [RunWarning("references_trimmed", text)]

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
