"""Choosing a testlib checker by what right solutions print, where a problem names none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from pacore.data.record import Record
from pacore.data.steps.parallel import map_threads
from pacore.data.steps.programs import ProgramRunner, companions_of
from pacore.data.steps.step import Fallen
from pacore.data.truths import ProgramTruth
from pacore.errors import ConfigError, ProblemError
from pacore.verifiers.code.checkers import check_output
from pacore.verifiers.sandbox.program import Limits
from pacore.verifiers.sandbox.sandbox import Sandbox

CANDIDATES = ("icmp", "ncmp", "yesno", "nyesno", "rcmp9", "rcmp6", "rcmp4", "wcmp", "lcmp")
"""In the order in which they are tried: one integer (64 bits), integers, yes or no, decimals from tight to
loose, words, lines. The first that every expected output fits and every right output passes is taken."""

_DECIMAL = re.compile(r"\d\.\d|\d[eE]-?\d")
_LIMITS = Limits(cpu_s=10.0)


class CheckerChoice:
    """Gives each programming problem on stdin a checker, by the outputs of its right solutions.

    A problem falls where no checker accepts what they print: it needs a judge of its own. Without a right
    solution the expected outputs alone decide.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def __call__(self, records: Iterable[Record]) -> Iterator[Record | Fallen]:
        """Each record with a checker, or why there is none for it."""
        return map_threads(self._one, records)

    def _one(self, record: Record) -> Record | Fallen:
        truth = record.truth
        if not isinstance(truth, ProgramTruth) or truth.fn_name is not None or truth.checker is not None:
            return record
        try:
            references = companions_of(record).references
        except (ProblemError, ConfigError) as error:
            return Fallen(id=record.id, reason="bad_programs", detail=str(error))
        pairs: list[tuple[str, str]] = []
        with ProgramRunner(self._sandbox, _LIMITS) as runner:
            for test in truth.tests:
                given, expected = str(test["input"]), str(test["output"])
                pairs.append((expected, expected))
                for number, program in enumerate(references, start=1):
                    output, why = runner.output(program, given)
                    if output is None:
                        detail = f"solution {number} on {given[:80]!r}: {why}"
                        return Fallen(id=record.id, reason="reference_fails", detail=detail)
                    pairs.append((expected, output))
        chosen = choose_checker(pairs)
        if chosen is None:
            expected, output = _first_difference(pairs)
            detail = f"expected {expected[:80]!r}, a right solution prints {output[:80]!r}"
            return Fallen(id=record.id, reason="needs_a_judge", detail=detail)
        return msgspec.structs.replace(record, truth=msgspec.structs.replace(truth, checker=chosen))


def choose_checker(pairs: Sequence[tuple[str, str]]) -> str | None:
    """The first of CANDIDATES that accepts every (expected, right output); ``None`` where there is none."""
    decimals = any(_DECIMAL.search(expected) for expected, _ in pairs)
    for name in CANDIDATES:
        if name.startswith("rcmp") and not decimals:
            # Large integers would be equal as decimals though they differ.
            continue
        if all(check_output(name, output, expected).outcome == "ok" for expected, output in pairs):
            return name
    return None


def _first_difference(pairs: Sequence[tuple[str, str]]) -> tuple[str, str]:
    return next((pair for pair in pairs if check_output("wcmp", pair[1], pair[0]).outcome != "ok"), pairs[0])
