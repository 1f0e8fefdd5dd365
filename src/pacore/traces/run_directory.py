"""The directory of a batch: its configuration, its results, and a journal for each problem."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from pacore.errors import JournalError
from pacore.traces.directory import WorkDirectory
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
        self._directory = WorkDirectory(path, settings, description="run.json")
        try:
            (path / "trace").mkdir(exist_ok=True)
            self.results_path.touch()
            cut_torn_line(self.results_path)
            self._results = self.results_path.open("ab", buffering=0)
        except OSError as error:
            self._directory.close()
            raise JournalError(f"cannot use {path}: {error.strerror}; choose another --out") from error

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._results.close()
        self._directory.close()

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Note ``settings`` beside those noted before. Raises JournalError where one of them differs."""
        self._directory.begin(settings)

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
