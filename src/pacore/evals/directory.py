"""The directory of an evaluation: all of its configuration, every call, verdict and result.

``eval.json``      benchmark, methods, seeds, models, versions: what it takes to repeat it
``problems.jsonl`` the problems as they were asked
``calls.jsonl``    the calls that were made, shared by all methods
``verdicts.jsonl`` what was found of each text
``results.jsonl``  an :class:`~pacore.evals.outcome.Outcome` a line
``votes.jsonl``    the pool's answers by class, for self-consistency and pass@k
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from pacore.data.problem_file import ProblemFile
from pacore.data.record import Record
from pacore.errors import JournalError
from pacore.evals.outcome import Outcome
from pacore.evals.votes import PoolVotes
from pacore.traces.directory import WorkDirectory, read_description, write_whole
from pacore.traces.journal import append_line, cut_torn_line, unwritable
from pacore.traces.store import TrajectoryStore
from pacore.verifiers.cache import VerdictFile

DESCRIPTION = "eval.json"
RESULTS = "results.jsonl"
VOTES = "votes.jsonl"
PROBLEMS = "problems.jsonl"
_NAMED_VERSIONS = ("pacore", "aiohttp", "msgspec", "math-verify", "sympy", "numpy", "xllamacpp")


class EvalDirectory:
    """The directory for writing; held by one process at a time. Other settings are refused, and so is another
    problem under an id that is there.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], records: Iterable[Record]) -> None:
        self.path = path
        with ExitStack() as stack:
            self.work = stack.enter_context(
                WorkDirectory(path, settings, description=DESCRIPTION, facts={"versions": versions()})
            )
            self.calls = stack.enter_context(TrajectoryStore(path / "calls.jsonl"))
            self.verdicts = stack.enter_context(VerdictFile(path / "verdicts.jsonl"))
            problems = stack.enter_context(ProblemFile(path / PROBLEMS))
            for record in records:
                problems.admit(record)
            self._results_path = path / RESULTS
            self._results_path.touch()
            cut_torn_line(self._results_path)
            self._results = stack.enter_context(self._results_path.open("ab", buffering=0))
            self.done = {(line.method, line.problem, line.run) for line in read_outcomes(path, answers=False)}
            self._stack = stack.pop_all()

    def __enter__(self) -> EvalDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def append(self, outcome: Outcome) -> None:
        """Write an outcome; it is with the operating system when this returns."""
        try:
            append_line(self._results.fileno(), msgspec.json.encode(outcome))
        except OSError as error:
            raise unwritable(self._results_path, error) from error
        self.done.add((outcome.method, outcome.problem, outcome.run))

    def write_votes(self, votes: Sequence[PoolVotes]) -> None:
        """Replace what is known of the pool's answers."""
        write_whole(self.path / VOTES, msgspec.json.Encoder().encode_lines(votes))


def read_outcomes(path: Path, *, answers: bool = True) -> Iterator[Outcome]:
    """The outcomes of a directory. Raises JournalError for a line that is none."""
    decode = msgspec.json.Decoder(Outcome).decode
    file = path / RESULTS
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.endswith(b"\n"):
                    # Being written just now.
                    return
                try:
                    outcome = decode(line)
                except msgspec.DecodeError as error:
                    raise JournalError(f"{file}:{number} is no result of an evaluation: {error}") from error
                yield outcome if answers else msgspec.structs.replace(outcome, answer=None)
    except OSError as error:
        raise JournalError(f"cannot read {file}: {error.strerror}") from error


def read_votes(path: Path) -> list[PoolVotes]:
    """What is known of the pool's answers; nothing where there was no pool."""
    file = path / VOTES
    if not file.exists():
        return []
    try:
        return [msgspec.json.decode(line, type=PoolVotes) for line in file.read_bytes().splitlines()]
    except msgspec.DecodeError as error:
        raise JournalError(f"{file} holds a line that is none of a pool's answers: {error}") from error


def read_settings(path: Path) -> dict[str, Any]:
    """The configuration of an evaluation. Raises JournalError where ``path`` is none."""
    settings: dict[str, Any] = read_description(path / DESCRIPTION)["settings"]
    return settings


def versions() -> dict[str, str]:
    """The versions that results may depend on."""
    found = {"python": sys.version.split()[0], "platform": platform.platform()}
    for name in _NAMED_VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
