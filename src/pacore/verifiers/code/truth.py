"""The truth of a programming problem: tests, how outputs are compared, limits. Read from the usual shapes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from pacore.config import unknown_name
from pacore.errors import ConfigError, ProblemError
from pacore.verifiers.code.checkers import CHECKERS
from pacore.verifiers.sandbox.program import Language, Limits

LCB_COMPAT = "lcb_compat"
DEFAULT_LIMITS = Limits(cpu_s=6.0)
_MOST_SECONDS, _MOST_MEMORY_MB = 3600, 1 << 18
_LANGUAGES: Mapping[str, Language] = {
    "python": "python",
    "python3": "python",
    "py": "python",
    "cpp": "cpp",
    "c++": "cpp",
}


class SpecialJudge(Struct, frozen=True, kw_only=True):
    """A program that judges outputs, called and answering as testlib's checkers do.

    Arguments: files with the input, the output and the answer. Exit code 0: right; 1, 2 and 7: not; 3:
    the jury's own fault. ``files`` (``testlib.h``, say) stand beside a C++ source.
    """

    source: str
    language: Language = "cpp"
    files: dict[str, str] = {}


class CodeTest(Struct, frozen=True, kw_only=True):
    """One test. For a function ``input`` is a list of arguments and ``output`` a value."""

    input: Any
    output: Any


class CodeTruth(Struct, frozen=True, kw_only=True):
    """Tests of a program on stdin or, with ``function``, of a function (a method of Solution, or plain).

    ``harness``: instead of tests, statements that raise where the program is wrong; they run beside it, so
    unlike tests they are no match for a program that is out to fool them. ``preamble`` stands before it.
    ``checker``: a name of ``CHECKERS``, ``lcb_compat``, or a special judge. ``faults``: tests that the
    jury's own data make invalid, by index, with the reason.
    """

    tests: tuple[CodeTest, ...] = ()
    function: str | None = None
    checker: str | SpecialJudge = LCB_COMPAT
    limits: Limits = DEFAULT_LIMITS
    harness: str | None = None
    preamble: str = ""
    faults: dict[int, str] = {}


def read_code_truth(source: Any, *, headers: Mapping[str, str] | None = None) -> CodeTruth:
    """Read tests: a mapping with ``inputs`` and ``outputs`` or ``tests``, a list of tests, or JSON of these.

    Beside them ``fn_name``, ``checker`` (a name, or ``language`` and ``source``), ``limits`` (``time_s``,
    ``memory_mb``) are understood; or ``harness`` with ``prelude`` and ``entry_point``. ``headers`` are put
    beside C++ judges. Raises ProblemError where there are no tests to be read.
    """
    if isinstance(source, str):
        try:
            source = json.loads(source)
        except (ValueError, RecursionError) as error:
            raise ProblemError(f"tests: not JSON ({error}): {source[:80]!r}") from error
    if isinstance(source, Sequence):
        source = {"tests": source}
    if not isinstance(source, Mapping):
        raise ProblemError(f"tests: a mapping or a list is wanted, not {source!r:.80}")
    limits = _limits(source.get("limits") or {})
    if source.get("harness"):
        return CodeTruth(harness=_harness(source), preamble=str(source.get("prelude") or ""), limits=limits)
    pairs = _pairs(source)
    function = source.get("fn_name") or source.get("function")
    if function and not (isinstance(function, str) and function.isidentifier()):
        raise ProblemError(f"tests: fn_name is a function's name, not {function!r:.80}")
    faults: dict[int, str] = {}
    tests = []
    for index, (given, expected) in enumerate(pairs):
        if function:
            given, expected = _function_test(index, given, expected, faults)  # noqa: PLW2901
        else:
            given, expected = _text(given), _text(expected)  # noqa: PLW2901
        tests.append(CodeTest(input=given, output=expected))
    return CodeTruth(
        tests=tuple(tests),
        function=function,
        checker=_checker(source.get("checker"), headers or {}),
        limits=limits,
        faults=faults,
    )


def _pairs(source: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    if isinstance(source.get("tests"), Sequence):
        try:
            pairs = [(test["input"], test["output"]) for test in source["tests"]]
        except (TypeError, KeyError) as error:
            raise ProblemError(f"tests: each needs input and output; {error!r}") from error
    else:
        inputs, outputs = source.get("inputs"), source.get("outputs")
        if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
            raise ProblemError("tests: needs tests, or inputs and outputs, lists of the same length")
        pairs = list(zip(inputs, outputs, strict=True))
    if not pairs:
        raise ProblemError("tests: there is none")
    return pairs


def _function_test(index: int, given: Any, expected: Any, faults: dict[int, str]) -> tuple[Any, Any]:
    """Arguments, a JSON value a line, and the expected value as JSON; or both as data already."""
    try:
        if isinstance(given, str):
            given = [json.loads(line) for line in given.split("\n") if line.strip()]
        if isinstance(expected, str):
            expected = json.loads(expected)
    except (ValueError, RecursionError) as error:
        faults[index] = f"not JSON ({error})"
    if not isinstance(given, list):
        faults[index] = "arguments are no list"
    return given, expected


def _text(value: Any) -> str:
    """Some data sets give the text of a file as a list of lines."""
    if isinstance(value, str):
        return value
    return "\n".join(map(str, value)) if isinstance(value, list) else json.dumps(value)


def _limits(given: Mapping[str, Any]) -> Limits:
    try:
        cpu_s = float(given.get("time_s") or DEFAULT_LIMITS.cpu_s)
        memory_mb = int(given.get("memory_mb") or DEFAULT_LIMITS.memory_mb)
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise ProblemError(f"tests: limits are time_s and memory_mb, numbers, not {given!r:.80}") from error
    if not (0 < cpu_s <= _MOST_SECONDS and 0 < memory_mb <= _MOST_MEMORY_MB):
        raise ProblemError(
            f"tests: limits of {cpu_s:g} s and {memory_mb} MiB; at most {_MOST_SECONDS} and {_MOST_MEMORY_MB}"
        )
    return Limits(cpu_s=cpu_s, memory_mb=memory_mb)


def _harness(source: Mapping[str, Any]) -> str:
    entry = source.get("entry_point")
    if not isinstance(source["harness"], str) or not isinstance(entry or "", str):
        raise ProblemError(f"tests: harness and entry_point are texts, not {source['harness']!r:.80}")
    return f"{source['harness']}\n" + (f"check({entry})\n" if entry else "")


def _checker(given: Any, headers: Mapping[str, str]) -> str | SpecialJudge:
    if given is None:
        return LCB_COMPAT
    if isinstance(given, str):
        if given != LCB_COMPAT and given not in CHECKERS:
            raise ProblemError(unknown_name("checker", given, {**CHECKERS, LCB_COMPAT: None}))
        return given
    if isinstance(given, Mapping) and isinstance(given.get("source"), str):
        files = given.get("files") or {}
        if not isinstance(files, Mapping) or not all(_is_plain_file(*item) for item in files.items()):
            raise ProblemError(f"checker: files are texts by plain names without folders: {files!r:.80}")
        return SpecialJudge(
            source=given["source"],
            language=read_language(given.get("language", "cpp")),
            files={**headers, **files},
        )
    raise ProblemError(f"checker: a name, or language and source, not {given!r:.80}")


def _is_plain_file(name: Any, text: Any) -> bool:
    plain = isinstance(name, str) and "/" not in name and not name.startswith(".") and "\0" not in name
    return plain and bool(name) and isinstance(text, str)


def read_language(name: Any) -> Language:
    """``c++17`` and its like are C++. Raises ConfigError for a language that is not run here."""
    if not isinstance(name, str):
        raise ConfigError(f"a language is a name such as python or cpp, not {name!r:.80}")
    key = name.lower()
    key = "cpp" if key.startswith(("c++", "cpp", "gnu++", "g++")) else key
    if key not in _LANGUAGES:
        raise ConfigError(f"programs in {name!r} are not run; python and cpp are")
    return _LANGUAGES[key]
