"""Ground truth, typed: what a verifier needs to know of the right answer, whatever file it came from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias, get_args

import msgspec
from msgspec import Struct

from pacore.errors import ProblemError


class MathTruth(Struct, frozen=True, kw_only=True, tag="math", omit_defaults=True):
    """A final answer, compared by equivalence. A number is kept as its text."""

    answer: str
    extra: dict[str, Any] = {}


class IntegerTruth(Struct, frozen=True, kw_only=True, tag="integer", omit_defaults=True):
    """An integer of any length, by its digits."""

    answer: str
    extra: dict[str, Any] = {}


class ProgramTruth(Struct, frozen=True, kw_only=True, tag="code_io", omit_defaults=True):
    """Tests of a program: on stdin, or with ``fn_name`` by calling a function.

    Each test has ``input`` and ``output``, maybe ``name`` and ``public``. ``checker`` is the name of one of
    testlib's or a special judge with ``language`` and ``source``; ``limits`` has ``time_s``, ``memory_mb``.
    """

    tests: tuple[dict[str, Any], ...]
    fn_name: str | None = None
    checker: str | dict[str, Any] | None = None
    limits: dict[str, Any] = {}
    extra: dict[str, Any] = {}


class AssertTruth(Struct, frozen=True, kw_only=True, tag="code_assert", omit_defaults=True):
    """Statements that raise where a program is wrong; ``check(entry_point)`` follows where one is named."""

    harness: str
    prelude: str = ""
    entry_point: str | None = None
    extra: dict[str, Any] = {}


class ChoiceTruth(Struct, frozen=True, kw_only=True, tag="choice", omit_defaults=True):
    """A letter out of several, with the texts of ``choices`` in the order A, B, C … where they are known."""

    answer: str
    choices: tuple[str, ...] = ()
    extra: dict[str, Any] = {}


class RubricTruth(Struct, frozen=True, kw_only=True, tag="rubric", omit_defaults=True):
    """A question that a judge answers about the response; ``pass_criteria``, YES or NO, is what passes."""

    target_question: str
    pass_criteria: str
    extra: dict[str, Any] = {}


class OpaqueTruth(Struct, frozen=True, kw_only=True, tag="opaque"):
    """A truth that no rule here reads; carried as it is."""

    value: Any


Truth: TypeAlias = (
    MathTruth | IntegerTruth | ProgramTruth | AssertTruth | ChoiceTruth | RubricTruth | OpaqueTruth
)
CodeTruths = (ProgramTruth, AssertTruth)

_KINDS: dict[str, type[Truth]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Truth)}


def kind_of(truth: Truth) -> str:
    """The name of a truth's kind: ``math``, ``integer``, ``code_io`` …"""
    return str(truth.__struct_config__.tag)


def truth_value(truth: Truth) -> Any:
    """The truth as JSON data, as :func:`read_truth` and the verifiers read it."""
    value: dict[str, Any] = msgspec.to_builtins(truth)
    return {**value.pop("extra", {}), **value}


def truth_text(truth: Truth) -> str:
    """The truth as one string, for columns that hold strings: an answer as it is, all else as JSON."""
    if isinstance(truth, MathTruth) and read_truth(truth.answer) == truth:
        return truth.answer
    return msgspec.json.encode(truth_value(truth)).decode()


def read_truth(value: Any, place: str = "ground_truth") -> Truth:
    """The truth in ``value``: a typed mapping, tests in a usual shape or JSON of them, or an answer.

    What fits none of these is opaque. Raises ProblemError for a typed truth that lacks what its type needs.
    """
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        parsed = _parsed(value)
        if isinstance(parsed, dict) and (parsed.get("type") in _KINDS or _untyped(parsed) is not None):
            return read_truth(parsed, place)
        if _is_test_list(parsed):
            return read_truth(parsed, place)
    if isinstance(value, str):
        return MathTruth(answer=value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return MathTruth(answer=str(value))
    if _is_test_list(value):
        return _convert({"type": "code_io", "tests": value}, place)
    if isinstance(value, Mapping):
        typed = dict(value) if value.get("type") in _KINDS else _untyped(value)
        if typed is not None:
            return _convert(typed, place)
    return OpaqueTruth(value=value)


def _untyped(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """A mapping in one of the shapes that data sets use, with its type added."""
    rest = dict(value)
    if isinstance(value.get("inputs"), list) and isinstance(value.get("outputs"), list):
        inputs, outputs = rest.pop("inputs"), rest.pop("outputs")
        if len(inputs) != len(outputs):
            return None
        tests = [{"input": one, "output": other} for one, other in zip(inputs, outputs, strict=True)]
        return {**rest, "type": "code_io", "tests": tests}
    if _is_test_list(value.get("tests")):
        return {**rest, "type": "code_io"}
    if isinstance(value.get("harness"), str):
        return {**rest, "type": "code_assert"}
    if isinstance(value.get("target_question"), str) and isinstance(value.get("pass_criteria"), str):
        return {**rest, "type": "rubric"}
    return None


def _convert(value: dict[str, Any], place: str) -> Truth:
    kind = _KINDS[value["type"]]
    known = set(kind.__struct_fields__)
    extra = {key: item for key, item in value.items() if key not in known and key != "type"}
    fields = {key: item for key, item in value.items() if key in known}
    if extra:
        fields["extra"] = {**extra, **fields.get("extra", {})}
    answer = fields.get("answer")
    if isinstance(answer, (int, float)) and not isinstance(answer, bool):
        fields["answer"] = str(answer)
    # A data set's null says as much as a missing key.
    fields = {key: item for key, item in fields.items() if item is not None or key == "value"}
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise ProblemError(f"{place}: no truth of type {value['type']}: {error}: {value!r:.120}") from error


def _is_test_list(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(isinstance(test, Mapping) and "input" in test and "output" in test for test in value)
    )


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
