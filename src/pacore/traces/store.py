"""Trajectories kept by key in one growing file, and read one at a time without loading it."""

from __future__ import annotations

import base64
import contextlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from pacore.errors import JournalError
from pacore.traces.journal import append_line, cut_torn_line, unwritable
from pacore.types import Trajectory

KeepReasoning: TypeAlias = Literal["packed", "kept", "dropped"]


class _Line(Struct, kw_only=True, omit_defaults=True):
    key: str
    trajectory: Trajectory
    reasoning: str = ""
    """The trajectory's reasoning as base64 of zlib, where it is packed."""


class _Key(Struct):
    key: str


class _Place(Struct, array_like=True):
    """A line of the index: where the line of a key begins in the file, and its length, in bytes."""

    offset: int
    length: int
    key: str


_encode = msgspec.json.Encoder().encode
_decode_line = msgspec.json.Decoder(_Line).decode
_decode_key = msgspec.json.Decoder(_Key).decode
_decode_place = msgspec.json.Decoder(_Place).decode


class TrajectoryStore:
    """``path`` is JSON lines; ``path.index`` says where each is, and is made again where it is wrong.

    In memory is a place a key. A line is with the operating system when :meth:`append` returns, so a killed
    process loses none. ``reasoning``: compressed, kept as text, or dropped. One writer at a time, which the
    directory around it sees to; readers open it with ``writable=False``.
    """

    def __init__(self, path: Path, *, reasoning: KeepReasoning = "packed", writable: bool = True) -> None:
        self.path = path
        self._index_path = path.with_name(f"{path.name}.index")
        self._reasoning = reasoning
        self._writable = writable
        self._places: dict[str, tuple[int, int]] = {}
        try:
            with contextlib.ExitStack() as undo:
                if writable:
                    path.touch()
                    cut_torn_line(path)
                    self._index = undo.enter_context(self._index_path.open("ab+", buffering=0))
                self._file = undo.enter_context(path.open("ab+" if writable else "rb", buffering=0))
                self._end = self._read_places()
                self._open_files = undo.pop_all()
        except OSError as error:
            raise JournalError(f"cannot use {path}: {error.strerror}") from error

    def __enter__(self) -> TrajectoryStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        self._open_files.close()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def keys(self) -> Iterator[str]:
        """The keys, in the order in which they came."""
        return iter(self._places)

    def __getitem__(self, key: str) -> Trajectory:
        """The trajectory kept under ``key``. Raises KeyError where there is none."""
        return self.read(key)

    def read(self, key: str, *, reasoning: bool = True) -> Trajectory:
        """The same; without its ``reasoning``, which can be most of it, where that is not needed."""
        offset, length = self._places[key]
        self._file.seek(offset)
        try:
            line = _decode_line(self._file.read(length))
            if not reasoning:
                return msgspec.structs.replace(line.trajectory, reasoning="")
            if not line.reasoning:
                return line.trajectory
            text = zlib.decompress(base64.b64decode(line.reasoning)).decode("utf-8", "surrogatepass")
        except (msgspec.DecodeError, ValueError, zlib.error) as error:
            raise JournalError(f"{self.path} is damaged at byte {offset} ({key!r}): {error}") from error
        return msgspec.structs.replace(line.trajectory, reasoning=text)

    def append(self, key: str, trajectory: Trajectory) -> None:
        """Keep a trajectory under ``key``, which must be new."""
        assert key not in self._places, f"{key} is kept already"
        packed = ""
        if trajectory.reasoning and self._reasoning != "kept":
            if self._reasoning == "packed":
                text = trajectory.reasoning.encode("utf-8", "surrogatepass")
                packed = base64.b64encode(zlib.compress(text, 1)).decode()
            trajectory = msgspec.structs.replace(trajectory, reasoning="")
        line = _encode(_Line(key=key, trajectory=trajectory, reasoning=packed))
        try:
            append_line(self._file.fileno(), line)
            self._note(key, self._end, len(line) + 1)
        except OSError as error:
            raise unwritable(self.path, error) from error

    def _note(self, key: str, offset: int, length: int) -> None:
        if self._writable:
            append_line(self._index.fileno(), _encode(_Place(offset, length, key)))
        self._places[key] = (offset, length)
        self._end = offset + length

    def _read_places(self) -> int:
        """Read the index, then whatever of the file it does not cover yet. Returns the file's end."""
        size = self.path.stat().st_size
        self._end = self._indexed(size)
        if self._end == size:
            return size
        with self.path.open("rb") as lines:
            lines.seek(self._end)
            for line in lines:
                if not line.endswith(b"\n"):
                    # Being written just now by another process.
                    break
                try:
                    key = _decode_key(line).key
                except msgspec.DecodeError as error:
                    raise JournalError(
                        f"{self.path} holds a line at byte {self._end} that is no trajectory: {error}"
                    ) from error
                self._note(key, self._end, len(line))
        return self._end

    def _indexed(self, size: int) -> int:
        """The end of what the index covers; 0, and an empty index, where it does not fit the file."""
        end = 0
        if self._index_path.exists():
            with self._index_path.open("rb") as lines:
                for line in lines:
                    try:
                        place = _decode_place(line)
                    except msgspec.DecodeError:
                        break
                    if not line.endswith(b"\n") or place.offset != end or end + place.length > size:
                        break
                    self._places[place.key] = (place.offset, place.length)
                    end += place.length
                else:
                    return end
        # Torn, or of another file: made anew from the file itself.
        self._places.clear()
        if self._writable:
            self._index.truncate(0)
        return 0
