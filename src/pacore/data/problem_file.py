"""The problems that a directory works on, one a line; under one id there is always the same one."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import msgspec

from pacore.data.files import RecordFile
from pacore.data.formats.pacore import write
from pacore.data.record import Record
from pacore.errors import JournalError
from pacore.traces.journal import append_line, cut_torn_line


class ProblemFile:
    """Problems are added as they come and never change: id, messages and truth."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.touch()
            cut_torn_line(path)
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise JournalError(f"cannot use {path}: {error.strerror}") from error
        self._known = {record.id: _fingerprint(record) for record in RecordFile(path, dialect="pacore")}

    def __enter__(self) -> ProblemFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def admit(self, record: Record) -> None:
        """Note a problem. Raises JournalError where another one has its id."""
        fingerprint = _fingerprint(record)
        known = self._known.get(record.id)
        if known is None:
            append_line(
                self._file.fileno(), msgspec.json.encode(write(msgspec.structs.replace(record, pool=())))
            )
            self._known[record.id] = fingerprint
        elif known != fingerprint:
            raise JournalError(
                f"the problem {record.id!r} is not the one in {self.path}, or has another truth; give it "
                "another id, or choose another --out"
            )


def _fingerprint(record: Record) -> bytes:
    bare = Record(id=record.id, messages=record.messages, truth=record.truth)
    return msgspec.json.encode(write(bare), order="deterministic")
