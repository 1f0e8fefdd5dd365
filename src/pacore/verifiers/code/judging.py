"""Judging what one run came to: the named checkers, LiveCodeBench's comparison, values, special judges."""

from __future__ import annotations

import json
import re
from typing import Any, Literal, NamedTuple

from pacore.verifiers.code.checkers import check_output
from pacore.verifiers.code.livecodebench import same_output, same_value
from pacore.verifiers.code.truth import LCB_COMPAT, CodeTest, CodeTruth
from pacore.verifiers.sandbox.program import Execution
from pacore.verifiers.sandbox.sandbox import SandboxedProgram

_WORST_DIGITS = 100_000
_MOST_RETURNED = 4 << 20
_JUDGE_SAYS: dict[int, Literal["ok", "wrong", "jury"]] = {0: "ok", 1: "wrong", 2: "wrong", 3: "jury"}


class Judged(NamedTuple):
    """``ok``, ``wrong``, ``jury`` where the test itself is at fault, or ``unclear`` where a special judge
    says so of this output alone; and why.
    """

    outcome: Literal["ok", "wrong", "jury", "unclear"]
    why: str = ""


def jury_faults(truth: CodeTruth) -> dict[int, str]:
    """Tests that no program could be held against, found by checking the answers against themselves."""
    faults = dict(truth.faults)
    if truth.function is not None or not isinstance(truth.checker, str) or truth.checker == LCB_COMPAT:
        return faults
    for index, test in enumerate(truth.tests):
        check = check_output(truth.checker, test.output, test.output)
        if check.outcome == "jury":
            faults[index] = check.message
    return faults


def judge(truth: CodeTruth, test: CodeTest, execution: Execution, special: SandboxedProgram | None) -> Judged:
    """What one run is worth. ``special`` is the special judge in its own sandbox, where there is one."""
    if execution.status != "ended":
        return Judged("wrong", _ended_by(execution))
    if execution.code:
        return Judged("wrong", f"crashed: {_last_line(execution.errors) or f'exit code {execution.code}'}")
    if truth.function is not None:
        return _judge_value(execution.returned, test.output)
    if special is not None:
        return _judge_specially(special, test, execution.output)
    output = execution.output.decode(errors="replace")
    if truth.checker == LCB_COMPAT:
        difference = same_output(output, test.output)
        return Judged("wrong", f"wrong answer: {difference}") if difference else Judged("ok")
    check = check_output(str(truth.checker), output, test.output)
    if check.outcome in ("ok", "jury"):
        return Judged("ok" if check.outcome == "ok" else "jury", check.message)
    return Judged("wrong", f"wrong {'format' if check.outcome == 'format' else 'answer'}: {check.message}")


def _ended_by(execution: Execution) -> str:
    if execution.status == "signalled":
        return f"crashed: signal {execution.code}"
    if execution.status == "timeout":
        return f"time limit: {execution.cpu_s:.1f} s of CPU, {execution.wall_s:.1f} s in all"
    if execution.status == "lost":
        return f"ended its sandbox: {execution.errors[-200:]}"
    return f"{execution.status} limit"


def _last_line(errors: str) -> str:
    lines = errors.strip().splitlines()
    return lines[-1][:200] if lines else ""


def _judge_value(returned: str, expected: Any) -> Judged:
    if len(returned) > _MOST_RETURNED:
        return Judged("wrong", f"returned more than {_MOST_RETURNED >> 20} MiB")
    try:
        value = read_plain(json.loads(returned))
        same = same_value(value, expected)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        # The text comes from inside the sandbox, where it may have been forged.
        return Judged("wrong", "returned nothing that can be read")
    if same:
        return Judged("ok")
    return Judged("wrong", f"wrong answer: expected {shown(expected, 64)}, found {shown(value, 64)}")


def shown(value: Any, most: int) -> str:
    """The beginning of a value for a reader; safe for JSON, whatever is in it."""
    try:
        text = value if isinstance(value, str) else repr(value)
    except (ValueError, RecursionError):
        # An integer longer than Python converts, or endless nesting.
        text = f"<{type(value).__name__} too large to be shown>"
    text = text if len(text) <= most else text[:most] + "…"
    return text.encode("utf-8", "replace").decode()


def read_plain(value: Any) -> Any:
    """Undo the tagging of values that came out of a sandbox; every kind of object is plain data after it."""
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    if kind == "int":
        return _integer(held)
    if kind == "float":
        return float.fromhex(held)
    if kind == "dict":
        # Expected values are JSON: their keys are texts. Hashing numbers of a program's choice could take
        # hours, as they can be made to collide.
        if not all(isinstance(key, str) for key, _ in held):
            return _Opaque("dict with keys that are no texts")
        return {key: read_plain(item) for key, item in held}
    if kind in ("list", "tuple"):
        return {"list": list, "tuple": tuple}[kind](read_plain(item) for item in held)
    return _Opaque(kind)


def _integer(text: str) -> int:
    if not re.fullmatch(r"-?0x[0-9a-f]+", text) or len(text) > _WORST_DIGITS:
        raise ValueError("no integer")
    return int(text, 16)


class _Opaque:
    """Something that is no plain data; equal to nothing."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __repr__(self) -> str:
        return f"<{self._kind}>"


def _judge_specially(special: SandboxedProgram, test: CodeTest, output: bytes) -> Judged:
    said = _asked(special, test, output.decode("utf-8", "surrogateescape"))
    if said.outcome != "jury":
        return said
    # Only where the judge fails on its own answer too is the test at fault: what a program prints must not
    # be able to remove a test. A judge that blames the jury for this output alone leaves it open.
    if _asked(special, test, test.output).outcome == "jury":
        return said
    return Judged("unclear" if said.why.startswith("judge says") else "wrong", said.why)


def _asked(special: SandboxedProgram, test: CodeTest, output: str) -> Judged:
    files = {"input": test.input, "output": output, "answer": test.output}
    execution = special.run(files=files, args=list(files))
    words = execution.errors.strip()[-200:] or execution.output.decode(errors="replace").strip()[-200:]
    if execution.status != "ended":
        return Judged("jury", f"judge: {execution.status} ({execution.code}) {words}")
    outcome = _JUDGE_SAYS.get(execution.code, "wrong")
    return Judged(outcome, "" if outcome == "ok" else f"judge says: {words}")
