"""More tests for a programming problem, and only such that mean something.

A generator makes inputs, a validator accepts them, all right solutions agree on the output, and afterwards
every right solution passes all tests and every wrong one fails some.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from pacore.data.record import Record
from pacore.data.steps.parallel import map_threads
from pacore.data.steps.programs import Companions, ProgramRunner, Source, companions_of
from pacore.data.steps.step import Fallen
from pacore.data.truths import ProgramTruth, truth_value
from pacore.errors import ConfigError, ProblemError
from pacore.seeds import derive_seed
from pacore.verifiers.code.checkers import check_output
from pacore.verifiers.code.livecodebench import same_output
from pacore.verifiers.code.truth import CodeTest, SpecialJudge, read_code_truth
from pacore.verifiers.code.verifier import CodeVerifier
from pacore.verifiers.sandbox.program import Limits
from pacore.verifiers.sandbox.sandbox import Sandbox

_LIMITS = Limits(cpu_s=10.0)
_TRIES = 3
"""So many inputs are asked for, for each that is wanted, before a generator is given up."""


class TestGeneration:
    """Brings each programming problem to ``number`` further tests.

    Records without a generator, and those that are no programs on stdin, pass as they are unless
    ``required``. Problems fall where the programs contradict each other, as one of them must be wrong.
    """

    __test__ = False

    def __init__(
        self,
        sandbox: Sandbox,
        verifier: CodeVerifier,
        *,
        number: int = 20,
        seed: int = 0,
        required: bool = False,
    ) -> None:
        self._sandbox = sandbox
        self._verifier = verifier
        self._number = number
        self._seed = seed
        self._required = required

    def __call__(self, records: Iterable[Record]) -> Iterator[Record | Fallen]:
        """Each record with its new tests, or why its programs are of no use."""
        return map_threads(self._one, records)

    def _one(self, record: Record) -> Record | Fallen:
        truth = record.truth
        if not isinstance(truth, ProgramTruth) or truth.fn_name is not None:
            return self._passed(record, "no program on stdin")
        try:
            companions = companions_of(record)
        except (ProblemError, ConfigError) as error:
            return Fallen(id=record.id, reason="bad_programs", detail=str(error))
        if companions.generator is None:
            return self._passed(record, "no generator")
        if companions.validator is None or not companions.references:
            missing = "validator" if companions.validator is None else "right solution"
            return Fallen(id=record.id, reason=f"no_{missing.replace(' ', '_')}")
        made = self._make(record, truth, companions)
        if isinstance(made, Fallen):
            return made
        longer = msgspec.structs.replace(truth, tests=(*truth.tests, *made))
        return self._held(msgspec.structs.replace(record, truth=longer), companions)

    def _passed(self, record: Record, why: str) -> Record | Fallen:
        return Fallen(id=record.id, reason="no_generator", detail=why) if self._required else record

    def _make(
        self, record: Record, truth: ProgramTruth, companions: Companions
    ) -> list[dict[str, Any]] | Fallen:
        """New tests, or why none can be had."""
        assert companions.generator is not None
        assert companions.validator is not None
        known = {test["input"] for test in truth.tests if isinstance(test["input"], str)}
        made: list[dict[str, Any]] = []
        failures: list[str] = []
        with ProgramRunner(self._sandbox, _LIMITS) as runner:
            for attempt in range(self._number * _TRIES):
                argument = str(derive_seed(self._seed, "test", record.id, attempt))
                given, why = runner.output(companions.generator, args=[argument])
                if given is None:
                    return Fallen(id=record.id, reason="generator_fails", detail=why)
                if given in known:
                    continue
                known.add(given)
                accepted, why = runner.output(companions.validator, given)
                if accepted is None:
                    failures.append(f"invalid input: {why}")
                    continue
                expected, why = runner.output(companions.references[0], given)
                if expected is None:
                    return Fallen(id=record.id, reason="reference_fails", detail=f"on {given[:80]!r}: {why}")
                test = CodeTest(input=given, output=expected)
                why = self._disagreement(runner, truth, companions.references[1:], test)
                if why:
                    return Fallen(
                        id=record.id, reason="references_disagree", detail=f"on {given[:80]!r}: {why}"
                    )
                made.append({"input": given, "output": expected, "name": f"generated_{attempt}"})
                if len(made) == self._number:
                    break
        if not made:
            detail = failures[0] if failures else "it makes no new input"
            return Fallen(id=record.id, reason="no_valid_input", detail=detail)
        return made

    def _disagreement(
        self, runner: ProgramRunner, truth: ProgramTruth, others: Iterable[Source], test: CodeTest
    ) -> str:
        for number, other in enumerate(others, start=2):
            output, why = runner.output(other, test.input)
            if output is None:
                return f"solution {number} {why}"
            if why := self._difference(truth, test, output):
                return f"solution {number}: {why}"
        return ""

    def _difference(self, truth: ProgramTruth, test: CodeTest, output: str) -> str:
        checker = read_code_truth(truth_value(truth)).checker
        if isinstance(checker, SpecialJudge):
            verdict = self._verifier.output_verdict(msgspec.to_builtins(checker), test, output)
            return "" if verdict.verdict == "correct" else verdict.reason
        if checker == "lcb_compat":
            return same_output(output, test.output)
        check = check_output(checker, output, test.output)
        return "" if check.outcome == "ok" else check.message

    def _held(self, record: Record, companions: Companions) -> Record | Fallen:
        """The record, where its tests tell right solutions from wrong ones."""
        tests = truth_value(record.truth)
        for number, program in enumerate(companions.references, start=1):
            verdict = self._verifier.verdict(tests, program.source, language=program.language)
            if verdict.verdict != "correct":
                detail = f"solution {number}: {verdict.reason}"
                return Fallen(id=record.id, reason="reference_fails", detail=detail)
        for number, program in enumerate(companions.wrong, start=1):
            verdict = self._verifier.verdict(tests, program.source, language=program.language)
            if verdict.verdict == "correct":
                return Fallen(
                    id=record.id,
                    reason="wrong_passes",
                    detail=f"wrong solution {number} passes all {len(tests['tests'])} tests",
                )
        return record
