"""DeepCoder's rows, as rLLM reads them: ``problem``, ``tests`` as JSON text, other columns kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pacore.data.formats.fields import Format, Row, id_of, json_inside, read_chat, text_of, without_empty
from pacore.data.formats.pacore import read_extra
from pacore.data.record import Record
from pacore.data.truths import ProgramTruth, read_truth
from pacore.errors import ProblemError


def read(row: Row, place: str) -> Record:
    """Read a row: tests in one list with types (TACO and LiveCodeBench parts) or as inputs and outputs."""
    rest = dict(row)
    messages = read_chat(text_of(rest, "problem"), place)
    tests = json_inside(rest.pop("tests", None))
    function = None
    if isinstance(tests, list):
        tests, function = _typed_tests(tests, place)
    truth = read_truth(tests, place)
    if not isinstance(truth, ProgramTruth):
        raise ProblemError(f"{place}: tests are a list or an object of tests, not {tests!r:.80}")
    if function is not None:
        truth = ProgramTruth(tests=truth.tests, fn_name=function)
    extra = read_extra(rest)
    return Record(
        id=id_of(extra, "id", messages),
        messages=messages,
        truth=truth,
        source=text_of(extra, "source"),
        license=text_of(extra, "license"),
        origin=text_of(extra, "origin"),
        extra=extra,
    )


def write(record: Record) -> Row:
    """Write a row, tests as a list with types. Raises ProblemError for a record it has no place for."""
    truth = record.truth
    if not isinstance(truth, ProgramTruth) or len(record.messages) != 1 or record.pool:
        raise ProblemError(f"record {record.id!r}: this format holds one question with tests, and no pool")
    if truth.checker is not None or truth.limits or truth.extra:
        raise ProblemError(f"record {record.id!r}: this format has no place for its checker or limits")
    kind = "stdin_stdout" if truth.fn_name is None else "functional"
    typed = {"type": kind}
    if truth.fn_name is not None:
        typed["fn_name"] = truth.fn_name
    row = {
        "problem": record.question,
        "tests": json.dumps([{**test, **typed} for test in truth.tests]),
    }
    known = without_empty(
        {"id": record.id, "source": record.source, "license": record.license, "origin": record.origin}
    )
    return {**record.extra, **row, **known}


def _typed_tests(tests: list[Any], place: str) -> tuple[list[Row], str | None]:
    plain, functions = [], set()
    for test in tests:
        if not isinstance(test, dict):
            raise ProblemError(f"{place}: a test is an object, not {test!r:.80}")
        rest = {key: value for key, value in test.items() if key not in ("type", "testtype", "fn_name")}
        metadata = rest.get("metadata")
        name = test.get("fn_name") or (metadata.get("func_name") if isinstance(metadata, dict) else None)
        if name:
            functions.add(name)
            rest.pop("metadata", None)
        plain.append({key: value for key, value in rest.items() if value is not None})
    if len(functions) > 1:
        raise ProblemError(f"{place}: its tests call different functions: {', '.join(sorted(functions))}")
    return plain, functions.pop() if functions else None


def _recognises(row: Mapping[str, Any]) -> bool:
    return "problem" in row and "tests" in row


DEEPCODER = Format("deepcoder", read, write, _recognises)
