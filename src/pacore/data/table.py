"""Parquet: records as rows of a table, in groups small enough to be read one at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pacore.data.formats.fields import Row
from pacore.errors import ProblemError

_GROUP = 512

OTHER = "other"
"""The field of a struct that holds, as JSON, what it has no fields for."""

_TEXT = pa.string()
_CHAT = pa.list_(pa.struct([("role", _TEXT), ("content", _TEXT)]))
_ORIGIN = {"source": _TEXT, "license": _TEXT, "origin": _TEXT}
COLUMNS: dict[str, dict[str, pa.DataType]] = {
    "pacore": {"id": _TEXT, "messages": _TEXT, "ground_truth": _TEXT, "responses": _TEXT, **_ORIGIN},
    "train8k": {"conversation": _CHAT, "responses": _TEXT, "ground_truth": _TEXT, "id": _TEXT, **_ORIGIN},
    "verl": {
        "data_source": _TEXT,
        "prompt": _CHAT,
        "ability": _TEXT,
        "reward_model": pa.struct([("style", _TEXT), ("ground_truth", _TEXT), (OTHER, _TEXT)]),
        "extra_info": pa.struct([("id", _TEXT), ("pool", _TEXT), ("record", _TEXT), (OTHER, _TEXT)]),
    },
    "trl": {"prompt": _CHAT, "solution": _TEXT, "responses": _TEXT, "id": _TEXT, **_ORIGIN},
    "verifiers": {"prompt": _CHAT, "answer": _TEXT, "info": _TEXT, "task": _TEXT},
    "livecodebench": {
        **{"question_id": _TEXT, "question_content": _TEXT, "starter_code": _TEXT, "metadata": _TEXT},
        **{"public_test_cases": _TEXT, "private_test_cases": _TEXT, **_ORIGIN},
    },
    "deepcoder": {"problem": _TEXT, "tests": _TEXT, "id": _TEXT, **_ORIGIN},
}
"""The columns of each format. A text column holds JSON where the value is no text; keys without a column
are JSON under ``extra``."""


class TableSink:
    """Writes rows in groups of some hundred, so that a reader needs the memory of one group."""

    def __init__(self, path: Path, dialect: str) -> None:
        self._columns = COLUMNS[dialect]
        self._schema = pa.schema([*self._columns.items(), ("extra", _TEXT)])
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._rows: list[Row] = []

    def write(self, row: Row, identity: str) -> None:
        """Take one row; it is on disk when its group is full or the sink is closed."""
        known = {key: value for key, value in row.items() if key in self._columns}
        extra = {key: value for key, value in row.items() if key not in self._columns}
        cells = {key: _cell(value, self._columns[key], identity) for key, value in known.items()}
        if extra:
            cells["extra"] = _json(extra)
        self._rows.append(cells)
        if len(self._rows) == _GROUP:
            self._flush()

    def close(self) -> None:
        """Write what is left and end the file."""
        if self._rows:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows = []


def _cell(value: Any, kind: pa.DataType, identity: str) -> Any:
    if kind == _TEXT:
        return value if isinstance(value, str) else _json(value)
    if kind == _CHAT:
        for message in value:
            if set(message) - {"role", "content"} or not isinstance(message.get("content"), str):
                raise ProblemError(
                    f"record {identity!r}: a message with parts, tool calls or other keys has no place in "
                    f"this table; write .jsonl, or the format pacore: {message!r:.80}"
                )
        return value
    known = {field.name for field in kind}
    other = {key: item for key, item in value.items() if key not in known}
    named = {key: item for key, item in value.items() if key in known}
    return {**named, OTHER: _json(other)} if other else named


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
