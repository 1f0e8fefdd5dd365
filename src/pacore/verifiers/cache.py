"""Verdicts kept in a growing file, so that no answer is verified twice."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import Literal

import msgspec
from msgspec import Struct

from pacore.errors import JournalError, ProblemError
from pacore.traces.journal import append_line, cut_torn_line, unwritable
from pacore.types import Problem, Trajectory, Verdict
from pacore.verifiers.verifier import Verifier


class Ruling(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A verdict as it is kept: of one text on one problem; ``index`` is its place in a pool. One that is
    ``transient`` is never kept: it could not be verified just now.
    """

    problem: str
    text: str
    """A hash of the text."""
    verdict: Literal["correct", "incorrect", "unverifiable"]
    reward: float = 0.0
    reason: str = ""
    index: int | None = None
    transient: bool = False


class VerdictFile:
    """JSON lines of :class:`Ruling`; a torn last line is cut off."""

    def __init__(self, path: Path, *, writable: bool = True) -> None:
        self.path = path
        self._by_text: dict[tuple[str, str], Ruling] = {}
        self._by_index: dict[str, dict[int, Ruling]] = {}
        self._descriptor = -1
        try:
            if writable:
                self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
                cut_torn_line(path)
            if path.exists():
                self._read()
        except OSError as error:
            raise JournalError(f"cannot use {path}: {error.strerror}") from error

    def __enter__(self) -> VerdictFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def get(self, problem_id: str, text: str) -> Ruling | None:
        """What was found of ``text`` as an answer to the problem."""
        return self._by_text.get((problem_id, text_hash(text)))

    def of_pool(self, problem_id: str) -> dict[int, Ruling]:
        """The rulings on a problem's pool, by index."""
        return self._by_index.get(problem_id, {})

    def put(self, problem_id: str, text: str, verdict: Verdict, *, index: int | None = None) -> Ruling:
        """Keep a verdict, unless it is transient; it is with the operating system when this returns."""
        ruling = Ruling(
            problem=problem_id,
            text=text_hash(text),
            verdict=verdict.verdict,
            reward=verdict.reward,
            reason=verdict.reason[:200],
            index=index,
            transient=verdict.transient,
        )
        if verdict.transient:
            return ruling
        try:
            append_line(self._descriptor, msgspec.json.encode(ruling))
        except OSError as error:
            raise unwritable(self.path, error) from error
        self._take(ruling)
        return ruling

    def _take(self, ruling: Ruling) -> None:
        self._by_text[ruling.problem, ruling.text] = ruling
        if ruling.index is not None:
            self._by_index.setdefault(ruling.problem, {})[ruling.index] = ruling

    def _read(self) -> None:
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    self._take(msgspec.json.decode(line, type=Ruling))
                except msgspec.DecodeError as error:
                    raise JournalError(f"{self.path}:{number} is no verdict: {error}") from error


class CachedVerifier:
    """Asks ``verifier`` only what none of ``files`` knows, and keeps what it says in the first of them."""

    def __init__(self, verifier: Verifier, files: list[VerdictFile]) -> None:
        self._verifier = verifier
        self._files = files

    async def verify(self, problem: Problem, text: str) -> Verdict:
        """The verdict on ``text``."""
        ruling = await self.rule(problem, text)
        return Verdict(
            verdict=ruling.verdict, reward=ruling.reward, reason=ruling.reason, transient=ruling.transient
        )

    async def rule_trajectory(
        self, problem: Problem, trajectory: Trajectory, *, index: int | None = None
    ) -> Ruling:
        """What is to be said of a trajectory: without a conclusion it is incorrect."""
        verdict = no_conclusion(trajectory)
        if verdict is None:
            return await self.rule(problem, trajectory.content, index=index)
        text = conclusion_of(trajectory)
        return self._known(problem.id, text, index) or self._files[0].put(
            problem.id, text, verdict, index=index
        )

    async def rule(self, problem: Problem, text: str, *, index: int | None = None) -> Ruling:
        """The same as it is kept; ``index`` is the text's place in the problem's pool."""
        if (known := self._known(problem.id, text, index)) is not None:
            return known
        try:
            verdict = await self._verifier.verify(problem, text)
        except ProblemError as error:
            # The problem's own fault: nothing can be said of any answer to it.
            verdict = Verdict(verdict="unverifiable", reason=f"bad_truth: {error}")
        return self._files[0].put(problem.id, text, verdict, index=index)

    def _known(self, problem_id: str, text: str, index: int | None) -> Ruling | None:
        for file in self._files:
            if (known := file.get(problem_id, text)) is None:
                continue
            if index is None or known.index == index:
                return known
            verdict = Verdict(verdict=known.verdict, reward=known.reward, reason=known.reason)
            return self._files[0].put(problem_id, text, verdict, index=index)
        return None


def text_hash(text: str) -> str:
    """What names a text in a verdict file."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def conclusion_of(trajectory: Trajectory) -> str:
    """What of a trajectory a verdict is kept under. One that was cut off is no answer, though another may
    say the same whole.
    """
    if trajectory.status == "complete":
        return trajectory.content
    return f"\0{trajectory.status}\0{trajectory.content}"


def no_conclusion(trajectory: Trajectory) -> Verdict | None:
    """The verdict on a trajectory that concluded nothing; ``None`` on one that has to be verified."""
    if trajectory.status == "complete" and trajectory.content.strip():
        return None
    return Verdict(verdict="incorrect", reason=f"no_conclusion: {trajectory.status}")
