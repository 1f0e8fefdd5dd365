"""Going on in the middle of a step that takes long for each record."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from pacore.data.formats.pacore import read, write
from pacore.data.record import Record
from pacore.data.steps.step import Fallen, Step
from pacore.errors import JournalError
from pacore.traces.journal import append_line, cut_torn_line


class _Begun(Struct, frozen=True):
    """The first line: what was given to the step, so that nothing is gone on with that has changed."""

    fingerprint: str


class _Outcome(Struct, frozen=True, omit_defaults=True):
    """A record's outcome: the record as a row, or why it fell."""

    row: dict[str, object] | None = None
    fallen: Fallen | None = None


class ResumedStep:
    """``step`` with a journal at ``path``: the outcomes that it holds are not made again.

    ``fingerprint`` is of the step's settings and input; a journal begun with another is begun anew.
    """

    def __init__(self, step: Step, path: Path, fingerprint: str) -> None:
        self._step = step
        self._path = path
        self._fingerprint = fingerprint

    def __call__(self, records: Iterable[Record]) -> Iterator[Record | Fallen]:
        """The outcomes kept, then those of the remaining records as they are made."""
        done = 0
        for outcome in self._kept():
            done += 1
            yield outcome
        begin = _encode(_Begun(self._fingerprint)) if done == 0 else None
        with self._path.open("ab" if done else "wb", buffering=0) as file:
            if begin is not None:
                append_line(file.fileno(), begin)
            for outcome in self._step(itertools.islice(records, done, None)):
                append_line(file.fileno(), _encode(_line_of(outcome)))
                yield outcome

    def _kept(self) -> Iterator[Record | Fallen]:
        if not self._path.exists():
            return
        cut_torn_line(self._path)
        with self._path.open("rb") as lines:
            try:
                first = next(lines, b"")
                if not first or msgspec.json.decode(first, type=_Begun).fingerprint != self._fingerprint:
                    return
                for number, line in enumerate(lines, start=1):
                    found = msgspec.json.decode(line, type=_Outcome)
                    if found.fallen is not None:
                        yield found.fallen
                    elif found.row is not None:
                        yield read(dict(found.row), f"{self._path}:{number}")
            except msgspec.DecodeError as error:
                raise JournalError(f"{self._path} is no journal of a step ({error}); delete it") from error


def _line_of(outcome: Record | Fallen) -> _Outcome:
    if isinstance(outcome, Fallen):
        return _Outcome(fallen=outcome)
    return _Outcome(row=write(outcome))


def _encode(line: _Begun | _Outcome) -> bytes:
    return msgspec.json.encode(line)
