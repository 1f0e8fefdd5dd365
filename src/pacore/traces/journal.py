"""The journal of one run: its events as JSON lines, appended before anything builds on them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import msgspec

from pacore.errors import JournalError
from pacore.events import (
    Event,
    RunFinished,
    RunStarted,
    TrajectoryFinished,
    TrajectoryProgress,
    TrajectoryStarted,
)
from pacore.types import Problem, Trajectory

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Event).decode


class Journal:
    """Appends the events of a run to ``path``, which must be new unless a run is resumed there.

    A torn last line of an earlier process is cut off.

    Each line reaches the operating system before :meth:`write` returns, so a killed process loses
    none. At the end of the run :meth:`write` also waits for the disk itself, so that no result is
    known of which a power cut could take the trace.
    """

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        self.path = path
        try:
            if not resume and path.is_file() and path.stat().st_size:
                raise JournalError(f"{path} is there already; choose another file for the trace")
            path.parent.mkdir(parents=True, exist_ok=True)
            # Appending and unbuffered: one write a line, and nothing of ours to lose.
            self._file = path.open("ab", buffering=0)
            cut_torn_line(path)
        except OSError as error:
            raise JournalError(
                f"cannot write a trace to {path}: {error.strerror}; choose another file"
            ) from error

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    async def write(self, event: Event) -> None:
        """Append ``event``. Passing states and replayed trajectories leave no line."""
        if isinstance(event, (TrajectoryProgress, TrajectoryStarted)):
            return
        if isinstance(event, TrajectoryFinished) and event.trajectory.source == "journal":
            return
        try:
            append_line(self._file.fileno(), _encode(event))
            if isinstance(event, RunFinished):
                await asyncio.to_thread(os.fdatasync, self._file.fileno())
        except OSError as error:
            raise unwritable(self.path, error) from error


def unwritable(path: Path, error: OSError) -> JournalError:
    """The sentence for a disk that is full or gone: what is on it already is kept."""
    return JournalError(
        f"cannot write to {path}: {error.strerror}; what was written is kept: make room, "
        "and run again to go on"
    )


def append_line(descriptor: int, line: bytes) -> None:
    """Write one whole line, whatever the operating system takes at a time."""
    rest = memoryview(line + b"\n")
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def cut_torn_line(path: Path) -> None:
    """Cut off a last line without its end, which a killed process may have left."""
    size = path.stat().st_size
    with path.open("rb+") as file:
        end = size
        while end > 0:
            start = max(0, end - 65_536)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end != size:
            file.truncate(end)


def read_events(path: Path) -> Iterator[Event]:
    """Yield the events of a journal, one line at a time; a torn last line is left out.

    Raises JournalError with the line's number where another line is no event.
    """
    try:
        lines = path.open("rb")
    except OSError as error:
        raise JournalError(f"cannot read the trace {path}: {error.strerror}") from error
    with lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield _decode(line)
            except msgspec.DecodeError as error:
                if not line.endswith(b"\n"):
                    return
                raise JournalError(f"{path}:{number} is not an event of a trace: {error}") from error


def recorded_problem(path: Path) -> Problem | None:
    """The problem that a journal was begun with, read from its first line alone."""
    if not path.exists():
        return None
    first = next(iter(read_events(path)), None)
    return first.problem if isinstance(first, RunStarted) else None


def recorded_trajectories(path: Path, *, retry_failed: bool = False) -> list[Trajectory]:
    """The finished trajectories of a journal, for a resumed run to replay.

    With ``retry_failed``, those that came to no conclusion are left out, and with them all later rounds,
    which were thought without them.
    """
    if not path.exists():
        return []
    found = [event.trajectory for event in read_events(path) if isinstance(event, TrajectoryFinished)]
    if not retry_failed:
        return found
    again = [trajectory.round for trajectory in found if trajectory.status != "complete"]
    last_round = min(again, default=None)
    return [
        trajectory
        for trajectory in found
        if trajectory.status == "complete" and (last_round is None or trajectory.round <= last_round)
    ]
