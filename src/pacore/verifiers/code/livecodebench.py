"""LiveCodeBench's data and its own comparison, as its evaluation code behaves (commit 28fef95), run or read.

Only the comparison is theirs: programs run on our runner, where its grader's weak spots are not.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import pickle
import zlib
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from pacore.errors import ProblemError

_MOST_BYTES = 1 << 30


def same_output(output: str, expected: str) -> str:
    """Compare outputs line by line; returns what differs, or an empty text.

    Lines are equal without outer blanks, or number by number as exact decimals: 3.0 and 3e0 are 3, but
    there is no tolerance; case and inner blanks count where a line is not all numbers.
    """
    found, wanted = _lines(output), _lines(expected)
    if len(found) != len(wanted):
        return f"{len(found)} lines, where {len(wanted)} are expected"
    for number, (one, other) in enumerate(zip(found, wanted, strict=True), start=1):
        if one != other and not _same_numbers(one, other):
            return f"line {number} differs: expected {other[:64]!r}, found {one[:64]!r}"
    return ""


def same_value(returned: Any, expected: Any) -> bool:
    """Whether a function's value is the expected one: Python's equality, and a tuple is as good as a list."""
    if isinstance(returned, tuple):
        returned = list(returned)
    return bool(returned == expected)


def decode_private_tests(text: str) -> list[dict[str, Any]]:
    """Private tests: JSON, or base64 of zlib of a pickle of JSON. Only plain data is ever unpickled.

    Raises ProblemError for anything else.
    """
    try:
        found = json.loads(text)
    except ValueError:
        found = json.loads(_unpickled(text))
    if not isinstance(found, list):
        raise ProblemError(f"private tests: a list is wanted, not {found!r:.80}")
    return found


def livecodebench_truth(record: Mapping[str, Any]) -> dict[str, Any]:
    """The truth of a LiveCodeBench record: its public and private tests, and the function's name."""
    tests = json.loads(record.get("public_test_cases") or "[]")
    tests += decode_private_tests(record.get("private_test_cases") or "[]")
    metadata = json.loads(record.get("metadata") or "{}")
    return {
        "tests": [{"input": test["input"], "output": test["output"]} for test in tests],
        "fn_name": metadata.get("func_name"),
    }


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_numbers(one: str, other: str) -> bool:
    try:
        return [Decimal(word) for word in one.split()] == [Decimal(word) for word in other.split()]
    except InvalidOperation:
        return False


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise ProblemError(f"private tests: a pickle that names {module}.{name}; only plain data is read")


def _unpickled(text: str) -> str:
    try:
        packed = base64.b64decode(text, validate=True)
        unpacker = zlib.decompressobj()
        unpacked = unpacker.decompress(packed, _MOST_BYTES)
        if unpacker.unconsumed_tail:
            raise ProblemError(f"private tests: more than {_MOST_BYTES} bytes")
        found = _PlainUnpickler(io.BytesIO(unpacked)).load()
    except (binascii.Error, zlib.error, pickle.UnpicklingError, EOFError, ValueError, IndexError) as error:
        raise ProblemError(f"private tests: neither JSON nor base64 of zlib of a pickle: {error}") from error
    if not isinstance(found, str):
        raise ProblemError(f"private tests: the pickle holds {type(found).__name__}, not JSON text")
    return found
