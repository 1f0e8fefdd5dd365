"""Output checkers with the semantics of testlib 0.9.45's standard checkers, in plain Python.

``wrong`` and ``format`` fail a test; ``jury`` means that the jury's own data are broken, so the test says
nothing. The one deliberate difference: ``icmp`` compares 64-bit integers, as PaCoRe's data need.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from pacore.config import unknown_name
from pacore.errors import ConfigError

_BLANKS = " \t\r\n"
_TOKEN = re.compile(r"[^ \t\r\n]+")
_INTEGER = re.compile(r"0|-?[1-9]\d*", re.ASCII)
_DOUBLE_LETTERS = re.compile(r"[0-9.eE+-]+")
_DOUBLE = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_BLANK_RUN = re.compile(r"[ \t\r\n]*")
_MOST_EXTRA = 10_000
_INT64 = range(-(2**63), 2**63)


class Check(NamedTuple):
    """A checker's finding and its words."""

    outcome: Literal["ok", "wrong", "format", "jury"]
    message: str = ""


class _Stop(Exception):  # noqa: N818 - it ends a check; it is no error
    def __init__(self, check: Check) -> None:
        super().__init__(check.message)
        self.check = check


class _Stream:
    """One side's text, read token by token or line by line."""

    def __init__(self, text: str, *, jury: bool) -> None:
        self._text = text
        self._place = 0
        self._jury = jury

    def fault(self, message: str) -> _Stop:
        """A format fault: the program's, or on the jury's side the jury's."""
        return _Stop(Check("jury" if self._jury else "format", message))

    def at_end(self) -> bool:
        """Whether only blanks are left; skips them."""
        match = _BLANK_RUN.match(self._text, self._place)
        assert match is not None
        self._place = match.end()
        return self._place == len(self._text)

    def word(self, expected: str = "token") -> str:
        if self.at_end():
            raise self.fault(f"unexpected end of file, {expected} expected")
        match = _TOKEN.match(self._text, self._place)
        assert match is not None
        self._place = match.end()
        return match[0]

    def integer(self) -> int:
        word = self.word("integer")
        if not _INTEGER.fullmatch(word) or len(word) > 20 or int(word) not in _INT64:
            raise self.fault(f"expected a 64-bit integer, found {word[:64]!r}")
        return int(word)

    def double(self) -> float:
        word = self.word("number")
        if not _DOUBLE_LETTERS.fullmatch(word) or not _DOUBLE.fullmatch(word):
            raise self.fault(f"expected a number, found {word[:64]!r}")
        return float(word)

    def has_line(self) -> bool:
        return self._place < len(self._text)

    def line(self) -> str:
        if not self.has_line():
            raise self.fault("unexpected end of file, line expected")
        end = self._text.find("\n", self._place)
        end = len(self._text) if end < 0 else end
        line = self._text[self._place : end]
        self._place = min(end + 1, len(self._text))
        return line.removesuffix("\r")


Checker = Callable[[_Stream, _Stream], None]


def check_output(checker: str, output: str, answer: str) -> Check:
    """Compare a program's ``output`` with the jury's ``answer`` by the checker of that name.

    Raises ConfigError for a name that is no checker's.
    """
    if checker not in CHECKERS:
        raise ConfigError(unknown_name("checker", checker, dict(CHECKERS)))
    program, jury = _Stream(output, jury=False), _Stream(answer, jury=True)
    try:
        CHECKERS[checker](program, jury)
    except _Stop as stop:
        return stop.check
    if not program.at_end():
        return Check("format", "extra information in the output")
    return Check("ok")


def _wrong(message: str) -> _Stop:
    return _Stop(Check("wrong", message))


def _differ(number: int, expected: object, found: object) -> _Stop:
    return _wrong(f"number {number} differs: expected {str(expected)[:64]!r}, found {str(found)[:64]!r}")


def _icmp(program: _Stream, jury: _Stream) -> None:
    expected, found = jury.integer(), program.integer()
    if expected != found:
        raise _differ(1, expected, found)


def _hcmp(program: _Stream, jury: _Stream) -> None:
    expected, found = jury.word(), program.word()
    for stream, word in ((jury, expected), (program, found)):
        if not _INTEGER.fullmatch(word):
            raise stream.fault(f"{word[:64]!r} is no valid integer")
    if expected != found:
        raise _differ(1, expected, found)


def _sequences(read: Callable[[_Stream], object]) -> Checker:
    """Sequences of equal length; the first difference decides, then the lengths."""

    def check(program: _Stream, jury: _Stream) -> None:
        count = 0
        while not jury.at_end() and not program.at_end():
            count += 1
            expected, found = read(jury), read(program)
            if expected != found:
                raise _differ(count, expected, found)
        for stream, name in ((jury, "answer"), (program, "output")):
            extra = 0
            while extra < _MOST_EXTRA and not stream.at_end():
                read(stream)
                extra += 1
            if extra:
                raise _wrong(f"the {name} is {extra} longer than {count} elements")

    return check


def _uncmp(program: _Stream, jury: _Stream) -> None:
    expected, found = _integers(jury), _integers(program)
    if len(expected) != len(found):
        raise _wrong(f"expected {len(expected)} elements, found {len(found)}")
    if sorted(expected) != sorted(found):
        raise _wrong("the elements differ, in whatever order")


def _integers(stream: _Stream) -> list[int]:
    numbers = []
    while not stream.at_end():
        numbers.append(stream.integer())
    return numbers


def _wcmp(program: _Stream, jury: _Stream) -> None:
    count = 0
    while not jury.at_end() and not program.at_end():
        count += 1
        expected, found = jury.word(), program.word()
        if expected != found:
            raise _differ(count, expected, found)
    if not jury.at_end():
        raise _wrong("the output ends too early")
    if not program.at_end():
        raise _wrong("the output has extra tokens")


def _lines(same: Callable[[str, str], bool]) -> Checker:
    def check(program: _Stream, jury: _Stream) -> None:
        count = 0
        while jury.has_line():
            expected = jury.line()
            if not expected and not jury.has_line():
                break
            count += 1
            # Where the output has ended, a last empty line of the answer still stands for nothing.
            if not program.has_line() and not expected.strip(_BLANKS) and jury.at_end():
                break
            found = program.line()
            if not same(expected, found):
                raise _differ(count, expected, found)

    return check


def _doubles(close: Callable[[float, float], bool], *, single: bool = False) -> Checker:
    def check(program: _Stream, jury: _Stream) -> None:
        count = 0
        while single or not jury.at_end():
            count += 1
            expected, found = jury.double(), program.double()
            if not close(expected, found):
                raise _differ(count, expected, found)
            if single:
                return

    return check


def _absolute(tolerance: float) -> Callable[[float, float], bool]:
    return lambda expected, found: abs(expected - found) <= tolerance + 1e-15


def _relative(tolerance: float) -> Callable[[float, float], bool]:
    """testlib's doubleCompare: absolute, or relative to the expected value."""
    slack = tolerance + 1e-15

    def close(expected: float, found: float) -> bool:
        if math.isinf(expected):
            return expected == found
        if math.isinf(found):
            return False
        if abs(found - expected) <= slack:
            return True
        ends = sorted((expected * (1 - slack), expected * (1 + slack)))
        return ends[0] <= found <= ends[1]

    return close


def _yes_or_no(stream: _Stream) -> str:
    word = stream.word()
    if word.upper() not in ("YES", "NO"):
        raise stream.fault(f"YES or NO expected, found {word[:64]!r}")
    return word.upper()


def _yesno(program: _Stream, jury: _Stream) -> None:
    expected, found = _yes_or_no(jury), _yes_or_no(program)
    if expected != found:
        raise _differ(1, expected, found)


def _cases(read: Callable[[_Stream], object], *, single: bool) -> Checker:
    """Outputs of the form ``Case 1: …`` for each test case; ``single`` has one value a case."""

    def parsed(stream: _Stream) -> list[list[object]]:
        cases: list[list[object]] = []
        pending = None if stream.at_end() else stream.word()
        while pending is not None:
            number = len(cases) + 1
            if pending != "Case":
                raise stream.fault(f"expected 'Case', found {pending[:64]!r} [test case {number}]")
            label = stream.word(f"'{number}:'")
            if label != f"{number}:":
                raise stream.fault(f"expected '{number}:', found {label[:64]!r} [test case {number}]")
            values, pending = _values(stream, read, single=single)
            cases.append(values)
        return cases

    def check(program: _Stream, jury: _Stream) -> None:
        expected, found = parsed(jury), parsed(program)
        for number, (one, other) in enumerate(zip(expected, found, strict=False), start=1):
            if one != other:
                raise _wrong(f"test case {number} differs: expected {one!r:.64}, found {other!r:.64}")
        if len(expected) != len(found):
            raise program.fault(f"expected {len(expected)} test cases, found {len(found)}")

    return check


def _values(
    stream: _Stream, read: Callable[[_Stream], object], *, single: bool
) -> tuple[list[object], str | None]:
    if single:
        return [read(stream)], None if stream.at_end() else stream.word()
    values: list[object] = []
    while not stream.at_end():
        place = stream._place
        word = stream.word()
        if word == "Case":
            return values, word
        stream._place = place
        values.append(read(stream))
    return values, None


CHECKERS: Mapping[str, Checker] = {
    "icmp": _icmp,
    "hcmp": _hcmp,
    "ncmp": _sequences(_Stream.integer),
    "uncmp": _uncmp,
    "wcmp": _wcmp,
    "fcmp": _lines(lambda expected, found: expected == found),
    "lcmp": _lines(lambda expected, found: _TOKEN.findall(expected) == _TOKEN.findall(found)),
    "rcmp": _doubles(_absolute(1.5e-6), single=True),
    "acmp": _doubles(_absolute(1.5e-6), single=True),
    "dcmp": _doubles(_relative(1e-6), single=True),
    "rncmp": _doubles(_absolute(1.5e-5)),
    "rcmp4": _doubles(_relative(1e-4)),
    "rcmp6": _doubles(_relative(1e-6)),
    "rcmp9": _doubles(_relative(1e-9)),
    "yesno": _yesno,
    "nyesno": _sequences(_yes_or_no),
    "caseicmp": _cases(_Stream.integer, single=True),
    "casencmp": _cases(_Stream.integer, single=False),
    "casewcmp": _cases(_Stream.word, single=False),
}
