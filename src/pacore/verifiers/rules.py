"""Verification by rules, whatever the kind of truth: math by equivalence, programs by their tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import cached_property
from types import TracebackType
from typing import Any

from pacore.errors import SandboxError
from pacore.types import Problem, Verdict
from pacore.verifiers.choice import choice_verdict
from pacore.verifiers.code.extract import extract_code
from pacore.verifiers.code.truth import CodeTest
from pacore.verifiers.code.verifier import CodeVerifier
from pacore.verifiers.math.verifier import MathVerifier
from pacore.verifiers.sandbox.program import Language

_CODE_KEYS = ("tests", "inputs", "harness")
_BEYOND_RULES = ("rubric", "opaque")


class RuleVerifier:
    """Chooses the verifier by the shape of a problem's ``ground_truth``.

    ``code`` makes the verifier of programs when the first one comes, since it looks for a sandbox; where
    there is none, programs are unverifiable.
    """

    def __init__(self, math: MathVerifier, code: Callable[[], CodeVerifier]) -> None:
        self._math = math
        self._make_code = code

    def __enter__(self) -> RuleVerifier:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End what the verifiers keep running."""
        made = self.__dict__.get("_code")
        if isinstance(made, CodeVerifier):
            made.close()

    async def verify(self, problem: Problem, text: str) -> Verdict:
        """The verdict on ``text`` as an answer to ``problem``."""
        return await asyncio.to_thread(self.verdict, problem.ground_truth, text)

    def verdict(self, truth: Any, text: str) -> Verdict:
        """The verdict on a text, by the truth alone; blocks, and may be called from any thread."""
        if isinstance(truth, Mapping) and truth.get("type") in _BEYOND_RULES:
            return Verdict(verdict="unverifiable", reason=f"beyond_rules: a {truth['type']} needs a judge")
        if isinstance(truth, Mapping) and truth.get("type") == "choice":
            return choice_verdict(truth, text)
        tests = _code_truth(truth)
        if tests is None:
            return self._math.verdict(truth, text)
        found = extract_code(text)
        if found is None:
            return Verdict(verdict="incorrect", reason="no_code: there is no closed block of code")
        return self.program_verdict(tests, found.source, language=found.language)

    def program_verdict(self, tests: Any, source: str, *, language: Language = "python") -> Verdict:
        """The verdict on a program itself."""
        return self._in_sandbox(lambda code: code.verdict(tests, source, language=language))

    def output_verdict(self, checker: Mapping[str, Any], test: CodeTest, output: str) -> Verdict:
        """A special judge's verdict on an output that is there already."""
        return self._in_sandbox(lambda code: code.output_verdict(checker, test, output))

    def _in_sandbox(self, ask: Callable[[CodeVerifier], Verdict]) -> Verdict:
        if isinstance(self._code, SandboxError):
            return Verdict(verdict="unverifiable", reason=f"no_sandbox: {self._code}", transient=True)
        try:
            return ask(self._code)
        except SandboxError as error:
            # No compiler, or no sandbox just now: that says nothing of the program.
            return Verdict(verdict="unverifiable", reason=f"no_sandbox: {error}", transient=True)

    @cached_property
    def _code(self) -> CodeVerifier | SandboxError:
        try:
            return self._make_code()
        except SandboxError as error:
            return error


def _code_truth(truth: Any) -> Any:
    """The tests, where the truth is tests: a mapping or list of them, or JSON of these."""
    if isinstance(truth, str) and truth.lstrip().startswith(("{", "[")):
        try:
            truth = json.loads(truth)
        except (ValueError, RecursionError):
            return None
    if isinstance(truth, Mapping) and any(truth.get(key) for key in _CODE_KEYS):
        return truth
    if isinstance(truth, list) and truth and all(isinstance(t, Mapping) and "input" in t for t in truth):
        return truth
    return None
