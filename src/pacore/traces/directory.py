"""A directory that one process works in at a time, begun with settings that later sittings must share."""

from __future__ import annotations

import fcntl
import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from pacore.errors import JournalError


class WorkDirectory:
    """Creates ``path``, locks it, and keeps ``settings`` in its file ``description``.

    ``settings`` decide what is computed: a directory begun with others is refused, as its results would
    not be comparable. ``facts`` are noted when it is begun and compared with nothing.
    """

    def __init__(
        self,
        path: Path,
        settings: Mapping[str, Any],
        *,
        description: str,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = path
        self._facts = facts or {}
        self._description = path / description
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = (path / ".lock").open("w")
        except OSError as error:
            raise JournalError(f"cannot use {path}: {error.strerror}; choose another --out") from error
        try:
            self._take_lock()
            self.begin(settings)
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> WorkDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let others work here."""
        self._lock.close()

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Note ``settings`` beside those noted before. Raises JournalError where one of them differs."""
        path = self._description
        described: dict[str, Any] = {"settings": {}, "created_at": time.time(), **self._facts}
        if path.exists():
            described = read_description(path)
        begun = described["settings"]
        now = msgspec.json.decode(msgspec.json.encode(settings))
        differing = [key for key in sorted(now) if key in begun and begun[key] != now[key]]
        if differing:
            told = "; ".join(f"{key} was {_short(begun[key])}, is {_short(now[key])}" for key in differing)
            raise JournalError(f"{self.path} was begun with other settings ({told}); choose another --out")
        described["settings"] = {**begun, **now}
        write_whole(path, msgspec.json.format(msgspec.json.encode(described), indent=2))

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise JournalError(
                f"another pacore is writing to {self.path}; wait for it or choose another --out"
            ) from error


def read_description(path: Path) -> dict[str, Any]:
    """What a directory was begun with. Raises JournalError for a file that is no such thing."""
    try:
        described: dict[str, Any] = msgspec.json.decode(path.read_bytes())
        described["settings"].items()
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror}") from error
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
        raise JournalError(f"{path} is no description of a run; choose another --out") from error
    return described


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_bytes(content)
    temporary.replace(path)


def short_hash(content: bytes) -> str:
    """What names a content in settings, to notice that another one takes its place."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."
