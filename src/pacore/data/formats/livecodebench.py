"""LiveCodeBench's rows: a statement, starter code, public tests as JSON, private tests packed."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Mapping
from typing import Any

from pacore.data.formats.fields import Format, Row, id_of, json_inside, text_of
from pacore.data.formats.pacore import read_extra
from pacore.data.record import Record
from pacore.data.truths import ProgramTruth
from pacore.errors import ProblemError
from pacore.verifiers.code.livecodebench import decode_private_tests


def read(row: Row, place: str) -> Record:
    """Read a row. The starter code is part of the question, as a function's name and arguments are.

    Raises ProblemError for private tests that are anything but plain data.
    """
    rest = dict(row)
    statement = text_of(rest, "question_content")
    starter = text_of(rest, "starter_code")
    if not statement:
        raise ProblemError(f"{place}: no question_content in it")
    public = _tests(json_inside(rest.pop("public_test_cases", None)), place)
    try:
        private = _tests(decode_private_tests(rest.pop("private_test_cases", None) or "[]"), place)
    except (ProblemError, ValueError) as error:
        raise ProblemError(f"{place}: {error}") from error
    metadata = dict(json_inside(rest.pop("metadata", None)) or {})
    function = metadata.pop("func_name", None)
    messages = ({"role": "user", "content": _question(statement, starter)},)
    extra = read_extra(rest)
    extra |= {"starter_code": starter} if starter else {}
    extra |= {"metadata": metadata} if metadata else {}
    return Record(
        id=id_of(extra, "question_id", messages),
        messages=messages,
        truth=ProgramTruth(
            tests=tuple([{**test, "public": True} for test in public] + private),
            fn_name=function,
        ),
        source=extra.pop("source", "") or "livecodebench",
        license=text_of(extra, "license"),
        origin=text_of(extra, "origin"),
        extra=extra,
    )


def write(record: Record) -> Row:
    """Write a row, private tests packed as LiveCodeBench packs them.

    Raises ProblemError for a record without tests, or whose truth says more than the format holds.
    """
    truth = record.truth
    if not isinstance(truth, ProgramTruth):
        raise ProblemError(f"record {record.id!r}: LiveCodeBench's format holds tests; this has none")
    if truth.checker is not None or truth.limits or truth.extra:
        raise ProblemError(
            f"record {record.id!r}: LiveCodeBench's format has no place for its checker, limits or other keys"
        )
    extra = dict(record.extra)
    starter = extra.pop("starter_code", "")
    metadata = {**extra.pop("metadata", {})}
    if truth.fn_name is not None:
        metadata["func_name"] = truth.fn_name
    kind = "stdin" if truth.fn_name is None else "functional"
    tests = [{"testtype": kind, **test} for test in truth.tests]
    public = [_without_flag(test) for test in tests if test.get("public")]
    private = [_without_flag(test) for test in tests if not test.get("public")]
    return {
        **extra,
        "question_id": record.id,
        "question_content": _statement(record.question, starter),
        "starter_code": starter,
        "public_test_cases": json.dumps(public),
        "private_test_cases": base64.b64encode(zlib.compress(pickle.dumps(json.dumps(private)))).decode(),
        "metadata": json.dumps(metadata),
        **{key: getattr(record, key) for key in ("source", "license", "origin") if getattr(record, key)},
    }


def _question(statement: str, starter: str) -> str:
    return f"{statement}\n\n```python\n{starter}\n```" if starter else statement


def _statement(question: str, starter: str) -> str:
    return question.removesuffix(_question("", starter)) if starter else question


def _tests(found: Any, place: str) -> list[Row]:
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(test, dict) for test in found):
        raise ProblemError(f"{place}: tests are a list of objects, not {found!r:.80}")
    # A test's type follows from whether the record names a function.
    return [{key: value for key, value in test.items() if key != "testtype"} for test in found]


def _without_flag(test: Row) -> Row:
    return {key: value for key, value in test.items() if key != "public"}


def _recognises(row: Mapping[str, Any]) -> bool:
    return "question_content" in row and "private_test_cases" in row


LIVECODEBENCH = Format("livecodebench", read, write, _recognises)
