"""Programs against tests: every test is run, the reward is the share that passes."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import msgspec

from pacore.errors import ConfigError, ProblemError
from pacore.types import Problem, Verdict
from pacore.verifiers.code.extract import extract_code
from pacore.verifiers.code.judging import Judged, judge, jury_faults, shown
from pacore.verifiers.code.truth import LCB_COMPAT, CodeTest, CodeTruth, SpecialJudge, read_code_truth
from pacore.verifiers.sandbox.program import Execution, Language, Limits, Program
from pacore.verifiers.sandbox.sandbox import BuildError, Sandbox, SandboxedProgram

_SHOWN_FAILURES = 3
_SHOWN = 300
_JUDGE_LIMITS = Limits(cpu_s=30.0, output_mb=1)
_KEPT_JUDGES = 4


class CodeVerifier:
    """Runs programs in a sandbox and compares what they put out with what is expected, outside of it.

    ``headers`` is a folder whose files (``testlib.h``, say) stand beside special judges in C++.
    ``most_timeouts`` stops after so many tests ran out of time; the rest then counts as failed. At most
    ``workers`` programs run at once (all cores by default), so that time limits are fair.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        headers: Path | None = None,
        most_timeouts: int | None = None,
        workers: int | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._headers = _read_folder(headers) if headers is not None else {}
        self._most_timeouts = most_timeouts
        self._slots = threading.BoundedSemaphore(workers or os.cpu_count() or 1)
        self._judges = _JudgePool(sandbox)

    def __enter__(self) -> CodeVerifier:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the special judges that are kept for their next use."""
        self._judges.close()

    async def verify(self, problem: Problem, text: str) -> Verdict:
        """The verdict on the last program in ``text``; the tests are the problem's ``ground_truth``."""
        found = extract_code(text)
        if found is None:
            return Verdict(verdict="incorrect", reason="no_code: there is no closed block of code")
        return await asyncio.to_thread(
            self.verdict, problem.ground_truth, found.source, language=found.language
        )

    def verdict(self, tests: Any, source: str, *, language: Language = "python") -> Verdict:
        """The verdict on a program itself; blocks, and may be called from any thread."""
        begun = time.perf_counter()
        try:
            truth = read_code_truth(tests, headers=self._headers)
        except (ProblemError, ConfigError) as error:
            return Verdict(verdict="unverifiable", reason=f"bad_tests: {error}")
        source = source.encode("utf-8", "replace").decode().removeprefix("\ufeff")
        with self._slots:
            report = _Report(truth, jury_faults(truth))
            reason = self._run(truth, source, language, report)
        return report.verdict(reason, self._sandbox, round((time.perf_counter() - begun) * 1e3, 3))

    def output_verdict(self, checker: Mapping[str, Any], test: CodeTest, output: str) -> Verdict:
        """A special judge's verdict on an output that is there already."""
        begun = time.perf_counter()
        try:
            tests = [{"input": test.input, "output": test.output}]
            truth = read_code_truth({"tests": tests, "checker": checker}, headers=self._headers)
        except (ProblemError, ConfigError) as error:
            return Verdict(verdict="unverifiable", reason=f"bad_tests: {error}")
        report = _Report(truth, {})
        execution = Execution(status="ended", output=_encoded(output))
        reason = ""
        try:
            with self._slots, self._judge(truth) as special:
                report.add(0, truth.tests[0], execution, judge(truth, truth.tests[0], execution, special))
        except _JudgeBuildError as error:
            reason = f"jury: the special judge does not compile: {error}"
        return report.verdict(reason, self._sandbox, round((time.perf_counter() - begun) * 1e3, 3))

    def _run(self, truth: CodeTruth, source: str, language: Language, report: _Report) -> str:
        """Run every valid test into ``report``; returns why it could not be run, or nothing."""
        if truth.function is not None and language != "python":
            return f"unsupported: functions are called in Python, not in {language}"
        lenient = truth.checker == LCB_COMPAT
        program = Program(
            source=f"{truth.preamble}\n{source}" if truth.preamble else source,
            language=language,
            function=truth.function,
            harness=truth.harness,
            prelude=lenient,
            ignore_exit=lenient and truth.harness is None,
        )
        try:
            with self._sandbox.open(program, _roomy(truth)) as running, self._judge(truth) as special:
                for index in range(len(truth.tests)):
                    if index not in report.faults and not self._given_up(report):
                        _run_test(running, special, index, report)
                if truth.harness is not None:
                    report.add(0, CodeTest(input="", output=""), *_run_harness(running))
        except _JudgeBuildError as error:
            return f"jury: the special judge does not compile: {error}"
        except BuildError as error:
            report.build_error = str(error)
        return ""

    def _given_up(self, report: _Report) -> bool:
        return self._most_timeouts is not None and report.timeouts >= self._most_timeouts

    @contextmanager
    def _judge(self, truth: CodeTruth) -> Iterator[SandboxedProgram | None]:
        if isinstance(truth.checker, str):
            yield None
            return
        with self._judges.lent(truth.checker) as special:
            yield special


def _run_test(
    running: SandboxedProgram, special: SandboxedProgram | None, index: int, report: _Report
) -> None:
    test = report.truth.tests[index]
    if report.truth.function is not None:
        execution = running.run(call=test.input)
    else:
        execution = running.run(_encoded(test.input))
    report.add(index, test, execution, judge(report.truth, test, execution, special))


def _roomy(truth: CodeTruth) -> Limits:
    """The limits, with room for the longest output that is expected."""
    longest = max((len(test.output) for test in truth.tests if isinstance(test.output, str)), default=0)
    room = max(truth.limits.output_mb, 2 + (longest * 2 >> 20))
    return msgspec.structs.replace(truth.limits, output_mb=room)


def _encoded(text: str) -> bytes:
    """Text as a file holds it: bytes that were no UTF-8 as they were, what no file can hold replaced."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _run_harness(running: SandboxedProgram) -> tuple[Execution, Judged]:
    execution = running.run()
    if execution.succeeded and execution.returned == "true":
        return execution, Judged("ok")
    why = execution.errors.strip().splitlines()[-1:] or [execution.status]
    return execution, Judged("wrong", f"failed: {why[0][:200]}")


class _JudgeBuildError(Exception):
    pass


class _JudgePool:
    """Special judges kept in their sandboxes, as compiling one takes longer than most of its work."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._idle: OrderedDict[int, tuple[SpecialJudge, SandboxedProgram]] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def lent(self, judge: SpecialJudge) -> Iterator[SandboxedProgram]:
        special = self._taken(judge)
        try:
            yield special
        except BaseException:
            special.close()
            raise
        with self._lock:
            self._idle[id(special)] = (judge, special)
            surplus = [self._idle.popitem(last=False)[1][1] for _ in range(len(self._idle) - _KEPT_JUDGES)]
        for old in surplus:
            old.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, OrderedDict()
        for _, special in idle.values():
            special.close()

    def _taken(self, judge: SpecialJudge) -> SandboxedProgram:
        with self._lock:
            for key, (known, special) in self._idle.items():
                if known == judge:
                    del self._idle[key]
                    return special
        program = Program(source=judge.source, language=judge.language, files=judge.files)
        special = self._sandbox.open(program, _JUDGE_LIMITS)
        try:
            special.start()
        except BuildError as error:
            raise _JudgeBuildError(str(error)[-500:]) from error
        return special


class _Report:
    """Counts the tests of one program and keeps the first failures."""

    def __init__(self, truth: CodeTruth, faults: Mapping[int, str]) -> None:
        self.truth = truth
        self.faults = dict(faults)
        self.build_error = ""
        self.unclear = ""
        self.timeouts = 0
        self._total = 1 if truth.harness is not None else len(truth.tests)
        self._passed = 0
        self._failures: list[dict[str, Any]] = []
        self._slowest = 0.0

    def add(self, index: int, test: CodeTest, execution: Execution, judged: Judged) -> None:
        """Count one test."""
        self._slowest = max(self._slowest, execution.cpu_s)
        self.timeouts += execution.status == "timeout"
        if judged.outcome == "jury":
            self.faults[index] = judged.why
        elif judged.outcome == "ok":
            self._passed += 1
        elif judged.outcome == "unclear":
            self.unclear = self.unclear or f"jury: the special judge fails on test {index}: {judged.why}"
        elif len(self._failures) < _SHOWN_FAILURES:
            failure = {"test": index, "why": judged.why, "input": shown(test.input, _SHOWN)}
            failure |= {
                "expected": shown(test.output, _SHOWN),
                "output": shown(execution.output.decode(errors="replace"), _SHOWN),
            }
            if execution.errors:
                failure["errors"] = execution.errors[-_SHOWN:]
            self._failures.append(failure)

    def verdict(self, reason: str, sandbox: Sandbox, ms: float) -> Verdict:
        """The verdict; ``reason`` says why nothing could be run, if so."""
        valid = self._total - len(self.faults)
        reason = reason or self.unclear
        evidence: dict[str, Any] = {
            "tests": valid,
            "passed": self._passed,
            "slowest_cpu_s": round(self._slowest, 3),
            "sandbox": f"{sandbox.backend.name} ({sandbox.backend.containment})",
        }
        if self.faults:
            first = dict(sorted(self.faults.items())[:_SHOWN_FAILURES])
            evidence["dropped"] = {"count": len(self.faults), "first": {str(k): v for k, v in first.items()}}
        if self._failures:
            evidence["failures"] = self._failures
        kind: Literal["correct", "incorrect", "unverifiable"]
        reward = 0.0
        if reason or valid == 0:
            kind, reason = "unverifiable", reason or "jury: not one test is valid"
        elif self.build_error:
            kind, reason = "incorrect", f"does_not_compile: {self.build_error[:_SHOWN]}"
        else:
            reward = self._passed / valid
            kind = "correct" if self._passed == valid else "incorrect"
            reason = f"{'passed' if kind == 'correct' else 'failed'}: {self._passed} of {valid} tests"
        return Verdict(verdict=kind, reward=reward, reason=reason, evidence=evidence, ms=ms)


def _read_folder(folder: Path) -> dict[str, str]:
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}; give the one that holds testlib.h")
    return {
        path.name: path.read_text("utf-8", "surrogateescape")
        for path in sorted(folder.iterdir())
        if path.is_file()
    }
