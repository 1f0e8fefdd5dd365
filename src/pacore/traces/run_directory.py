"""The directory of a batch: its configuration, its results, and a journal for each problem."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from pacore.errors import JournalError
from pacore.traces.journal import append_line, cut_torn_line, unwritable
from pacore.types import Result, Usage


class RunDirectory:
    """``DIR/run.json``, ``DIR/results.jsonl`` and ``DIR/trace/``; held by one process at a time.

    ``settings`` decide what is computed: a directory begun with others is refused, as its results
    would not be comparable.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        self.results_path = path / "results.jsonl"
        try:
            with contextlib.ExitStack() as undo:
                (path / "trace").mkdir(parents=True, exist_ok=True)
                self._lock = undo.enter_context((path / ".lock").open("w"))
                self._take_lock()
                self.begin(settings)
                self.results_path.touch()
                cut_torn_line(self.results_path)
                self._results = self.results_path.open("ab", buffering=0)
                undo.pop_all()
        except OSError as error:
            raise JournalError(f"cannot use {path}: {error.strerror}; choose another --out") from error

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._results.close()
        self._lock.close()

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Note ``settings`` beside those noted before. Raises JournalError where one of them differs."""
        path = self.path / "run.json"
        description: dict[str, Any] = {"settings": {}, "created_at": time.time()}
        if path.exists():
            try:
                description = msgspec.json.decode(path.read_bytes())
                description["settings"].items()
            except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
                raise JournalError(f"{path} is no description of a run; choose another --out") from error
        begun = description["settings"]
        now = msgspec.json.decode(msgspec.json.encode(settings))
        differing = [key for key in sorted(now) if key in begun and begun[key] != now[key]]
        if differing:
            told = "; ".join(f"{key} was {_short(begun[key])}, is {_short(now[key])}" for key in differing)
            raise JournalError(f"{self.path} was begun with other settings ({told}); choose another --out")
        description["settings"] = {**begun, **now}
        temporary = path.with_suffix(".new")
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(description), indent=2))
        temporary.replace(path)

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise JournalError(
                f"another pacore is writing to {self.path}; wait for it or choose another --out"
            ) from error

    def trace_path(self, problem_id: str) -> Path:
        """Where the journal of a problem lies."""
        return trace_path(self.path, problem_id)

    def statuses(self) -> dict[str, str]:
        """The status of every problem that has a result."""
        return {str(line.id): line.status for line in self._lines()}

    def usage(self) -> Usage:
        """What the results so far have used."""
        return sum((line.usage for line in self._lines()), Usage())

    def append(self, result: Result) -> None:
        """Write a result; it is with the operating system when this returns."""
        try:
            append_line(self._results.fileno(), msgspec.json.encode(result.record()))
        except OSError as error:
            raise unwritable(self.results_path, error) from error

    def forget_failed(self) -> int:
        """Take the results that are not complete out of the file, to be tried again; how many."""
        replacement = self.path / "results.jsonl.new"
        forgotten = 0
        with self.results_path.open("rb") as lines, replacement.open("wb") as kept:
            for line in lines:
                if self._decoded(line).status == "complete":
                    kept.write(line)
                else:
                    forgotten += 1
        self._results.close()
        replacement.replace(self.results_path)
        self._results = self.results_path.open("ab", buffering=0)
        return forgotten

    def _lines(self) -> Iterator[ResultLine]:
        with self.results_path.open("rb") as lines:
            for line in lines:
                yield self._decoded(line)

    def _decoded(self, line: bytes) -> ResultLine:
        return decode_result_line(line, self.results_path)


def trace_path(directory: Path, problem_id: str) -> Path:
    """Where a run directory keeps a problem's journal; readable, safe as a file's name, and unique."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", problem_id).strip("-.")[:60]
    mark = hashlib.blake2b(problem_id.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()
    return directory / "trace" / f"{slug}-{mark}.jsonl"


class ResultLine(msgspec.Struct):
    """What is read again of a line of results."""

    id: str | int | float
    status: str
    answer: str | None = None
    usage: Usage = Usage()


def decode_result_line(line: bytes, path: Path) -> ResultLine:
    """The part of a result line that pacore reads again. Raises JournalError for what is none."""
    try:
        return msgspec.json.decode(line, type=ResultLine)
    except msgspec.DecodeError as error:
        raise JournalError(f"{path} holds a line that is no result ({error}): {line[:80]!r}") from error


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."
