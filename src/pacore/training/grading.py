"""The reward of a trajectory, from its text: for the local trainer, verl, and the verifiers library.

A reward is the verdict on the conclusion; a trajectory that never closed its thinking has none, and earns 0.
Symbolic comparison runs in processes of its own, so grading works from any thread and cannot hang.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from pacore.data.truths import Truth, read_truth, truth_value
from pacore.evals.outcome import cross_checks
from pacore.sampling.thinking import split_thinking
from pacore.training.episode import Grade
from pacore.types import Verdict
from pacore.verifiers.code.verifier import CodeVerifier
from pacore.verifiers.math.symbolic import SymbolicPool
from pacore.verifiers.math.verifier import MathVerifier
from pacore.verifiers.rules import RuleVerifier
from pacore.verifiers.sandbox.choose import find_sandbox


class Grader:
    """Grades texts by the rules' verifiers; close it, or use it as a context, to end their processes.

    ``implicit_thinking`` is for models whose chat template opens the thinking, so that a text without any tag
    never closed it. ``headers`` is a folder of what special judges include.
    """

    def __init__(
        self, *, workers: int = 4, implicit_thinking: bool = False, headers: Path | None = None
    ) -> None:
        self._implicit = implicit_thinking
        self._symbolic = SymbolicPool(workers)
        self._rules = RuleVerifier(
            MathVerifier(self._symbolic), lambda: CodeVerifier(find_sandbox(), headers=headers)
        )
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="grading")

    def __enter__(self) -> Grader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the verifiers' processes."""
        self._threads.shutdown(cancel_futures=True)
        self._rules.close()
        self._symbolic.close()

    def conclusion(self, text: str) -> str | None:
        """What compaction keeps of a trajectory, or ``None`` where it came to no conclusion."""
        split = split_thinking(text, implicit=self._implicit)
        return split.conclusion if split.closed and split.conclusion.strip() else None

    def verdict(self, truth: Truth | Any, text: str) -> Verdict:
        """The verdict on a trajectory's text; ``truth`` as a record has it, or in any shape data sets use."""
        conclusion = self.conclusion(text)
        if conclusion is None:
            return Verdict(verdict="incorrect", reason="no_conclusion: the thinking was never closed")
        typed = truth if isinstance(truth, Truth) else read_truth(truth)
        return self._rules.verdict(truth_value(typed), conclusion)

    def grade(self, truth: Truth | Any, text: str) -> Grade:
        """The verdict as the trainer takes it: no reward where nothing could be verified."""
        verdict = self.verdict(truth, text)
        known = verdict.verdict != "unverifiable"
        return Grade(verdict.reward if known else None, cross_checks(text))

    def grade_all(self, pairs: Sequence[tuple[Truth | Any, str]]) -> list[Grade]:
        """The grades of (truth, text) pairs, several at a time, in their order."""
        return list(self._threads.map(lambda pair: self.grade(*pair), pairs))
