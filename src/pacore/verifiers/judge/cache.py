"""Judgments kept by prompt, model and sampling, in memory and, with a path, on disk."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec

from pacore.errors import ConfigError
from pacore.sampling.sampler import Call


class JudgmentCache:
    """One JSON object a line: ``{key, reply, model}``. A line cut by a crash is skipped.

    Raises ConfigError for a file that holds anything else.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._known: dict[str, dict[str, Any]] = {}
        self._path = path
        if path is not None and path.exists():
            self._read(path)

    def get(self, key: str) -> dict[str, Any] | None:
        """What was kept under ``key``."""
        return self._known.get(key)

    def put(self, key: str, judgment: dict[str, Any]) -> None:
        """Keep a judgment; it is on disk when this returns."""
        self._known[key] = judgment
        if self._path is not None:
            line = msgspec.json.encode({"key": key, **judgment}) + b"\n"
            fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(fd, line)
            finally:
                os.close(fd)

    def _read(self, path: Path) -> None:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.endswith(b"\n"):
                    # The next line must not be glued to it.
                    with path.open("ab") as file:
                        file.write(b"\n")
                try:
                    judgment = msgspec.json.decode(line, type=dict[str, Any])
                    self._known[judgment.pop("key")] = judgment
                except (msgspec.DecodeError, KeyError) as error:
                    if line.endswith(b"}\n"):
                        raise ConfigError(f"{path}:{number} is no judgment; use another cache") from error


def cache_key(call: Call, model: str) -> str:
    """Of all that decides what a judge says: the messages, the model, the sampling, the seed."""
    parts = (model.encode(), call.prompt.encoded, msgspec.json.encode(call.sampling), str(call.seed).encode())
    return hashlib.blake2b(b"\0".join(parts), digest_size=16).hexdigest()
