"""Files of rows: JSONL, JSON, CSV and parquet, plain or gzipped, or a data set of a hub; all streamed."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, cast

import msgspec

from pacore.data.formats.fields import Format, Row
from pacore.data.formats.registry import detect_format, named_format
from pacore.data.record import Record
from pacore.errors import ConfigError, MissingExtraError, ProblemError

OnBad = Literal["skip", "fail"]
Report = Callable[[str], None]

_JSONL = (".jsonl", ".ndjson")


class RecordFile:
    """The records of a file or a hub's data set, read anew each time it is iterated.

    ``source`` is a path, or ``hub:OWNER/NAME@CONFIG:SPLIT`` (the last two may be left out). The
    format is that of the first row where none is named. A bad row raises ProblemError with its number, or
    with ``on_bad="skip"`` is told to ``report`` and counted in ``skipped``.
    """

    def __init__(
        self,
        source: str | Path,
        *,
        dialect: str | None = None,
        on_bad: OnBad = "fail",
        report: Report | None = None,
    ) -> None:
        self.source = str(source)
        self._format = named_format(dialect) if dialect is not None else None
        self._on_bad = on_bad
        self._report = report or (lambda line: None)
        self.skipped = 0

    def __iter__(self) -> Iterator[Record]:
        self.skipped = 0
        chosen = self._format
        for number, row in read_rows(self.source):
            place = f"{self.source}:{number}"
            try:
                if isinstance(row, ProblemError):
                    raise row
                if chosen is None:
                    chosen = detect_format(row)
                yield chosen.read(row, place)
            except ProblemError as error:
                if self._on_bad == "fail":
                    raise
                self.skipped += 1
                self._report(f"skipped: {error}")


def read_rows(source: str) -> Iterator[tuple[int, Row | ProblemError]]:
    """The rows of a source with their numbers from 1; in place of a line that is no row, the error.

    Raises ConfigError where there is no such source.
    """
    if source.startswith("hub:"):
        yield from _hub_rows(source.removeprefix("hub:"))
        return
    path = Path(source)
    if not path.is_file():
        raise ConfigError(f"there is no file {path}; a data set of a hub is written hub:OWNER/NAME")
    kind = _kind(path)
    if kind == "parquet":
        yield from _parquet_rows(path)
    elif kind == "json":
        yield from _json_rows(path)
    elif kind == "csv":
        yield from _csv_rows(path)
    else:
        yield from _line_rows(path)


def _kind(path: Path) -> Literal["jsonl", "json", "csv", "parquet"]:
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    last = suffixes[-1] if suffixes else ""
    if last == ".parquet":
        return "parquet"
    if last == ".json":
        return "json"
    if last == ".csv":
        return "csv"
    if last in _JSONL:
        return "jsonl"
    raise ConfigError(f"{path}: its name should end in .jsonl, .json, .csv or .parquet (.gz may follow)")


def _opened(path: Path, mode: Literal["rb", "wb"]) -> IO[bytes]:
    if path.suffix.lower() == ".gz":
        return cast(IO[bytes], gzip.open(path, mode, compresslevel=6))
    return path.open(mode)


def _line_rows(path: Path) -> Iterator[tuple[int, Row | ProblemError]]:
    with _opened(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line  # noqa: PLW2901
            if not line.strip():
                continue
            yield number, _decoded(line, f"{path}:{number}")


def _decoded(line: bytes, place: str) -> Row | ProblemError:
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        try:
            # What others write as JSON without its being any: NaN, halves of character pairs, huge numbers.
            row = json.loads(line)
        except (ValueError, RecursionError):
            return ProblemError(f"{place}: not JSON ({error}): {line[:80]!r}")
    return row if isinstance(row, dict) else ProblemError(f"{place}: a row is an object, not {line[:80]!r}")


def _json_rows(path: Path) -> Iterator[tuple[int, Row | ProblemError]]:
    """The items of a JSON array, or of the first array in an object, one at a time."""
    ijson = _imported("ijson", "reading JSON arrays")
    with _opened(path, "rb") as file:
        head = file.read(4096).lstrip()
        prefix = "item" if head.startswith(b"[") else _array_key(path)
        file.seek(0)
        try:
            for number, row in enumerate(ijson.items(file, prefix), start=1):
                if isinstance(row, dict):
                    yield number, _with_floats(row)
                else:
                    yield number, ProblemError(f"{path}: item {number} is no object: {row!r:.80}")
        except ijson.JSONError as error:
            # What follows cannot be found any more: it is never only skipped.
            raise ProblemError(f"{path}: not JSON from here on: {error}") from error


def _with_floats(value: Any) -> Any:
    """Without decimals: ijson takes no integer beyond 64 bits where it is to make floats itself."""
    if isinstance(value, dict):
        return {key: _with_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_floats(item) for item in value]
    return float(value) if isinstance(value, Decimal) else value


def _array_key(path: Path) -> str:
    ijson = _imported("ijson", "reading JSON arrays")
    with _opened(path, "rb") as file:
        try:
            for prefix, event, _ in ijson.parse(file):
                if event == "start_array":
                    return f"{prefix}.item"
        except ijson.JSONError as error:
            raise ProblemError(f"{path}: not JSON: {error}") from error
    raise ProblemError(f"{path}: holds no array of rows")


def _csv_rows(path: Path) -> Iterator[tuple[int, Row | ProblemError]]:
    """Rows by the names in the first line; every value is text."""
    csv.field_size_limit(1 << 30)
    with _opened(path, "rb") as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        reader = csv.DictReader(text)
        for number, row in enumerate(reader, start=1):
            if None in row or None in row.values():
                yield number, ProblemError(f"{path}: row {number} has not as many cells as the first line")
            else:
                yield number, dict(row)


def _parquet_rows(path: Path) -> Iterator[tuple[int, Row | ProblemError]]:
    parquet = _imported("pyarrow.parquet", "reading parquet")
    arrow = _imported("pyarrow", "reading parquet")
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=256):
                for row in batch.to_pylist():
                    number += 1
                    # Columns that this row does not use.
                    yield number, {key: value for key, value in row.items() if value is not None}
    except arrow.ArrowInvalid as error:
        raise ProblemError(f"{path}: no parquet file: {error}") from error


def _hub_rows(name: str) -> Iterator[tuple[int, Row | ProblemError]]:
    datasets = _imported("datasets", "reading data sets from a hub", extra="hub")
    address, _, split = name.partition(":")
    repository, _, config = address.partition("@")
    try:
        rows = datasets.load_dataset(repository, config or None, split=split or "train", streaming=True)
        yield from enumerate(map(dict, rows), start=1)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise ConfigError(
            f"cannot read {name!r} from the hub ({error}); download it and give the file's path"
        ) from error


class RecordWriter(AbstractContextManager["RecordWriter"]):
    """Writes records to a file that takes its place only when all are in; the name's end says its kind."""

    def __init__(self, path: Path, *, dialect: str = "pacore") -> None:
        self.path = path
        self.count = 0
        self._format = named_format(dialect)
        self._partial = path.with_name(f".part.{path.name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._sink = _sink(path, self._partial, self._format)

    def write(self, record: Record) -> None:
        """Write one record. Raises ProblemError for what the format or the kind of file cannot hold."""
        self._sink.write(self._format.write(record), record.id)
        self.count += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sink.close()
        if error is None:
            self._partial.replace(self.path)
        else:
            self._partial.unlink()


def write_records(path: Path, records: Iterable[Record], *, dialect: str = "pacore") -> int:
    """Write all records to ``path``; how many there were."""
    with RecordWriter(path, dialect=dialect) as writer:
        for record in records:
            writer.write(record)
    return writer.count


class _LineSink:
    def __init__(self, file: IO[bytes], *, array: bool) -> None:
        self._file = file
        self._array = array
        self._count = 0

    def write(self, row: Row, identity: str) -> None:
        line = _encoded(row, identity)
        separator = (b",\n" if self._count else b"[\n") if self._array else b""
        self._file.write(separator + line + (b"" if self._array else b"\n"))
        self._count += 1

    def close(self) -> None:
        if self._array:
            self._file.write(b"\n]\n" if self._count else b"[]\n")
        self._file.close()


def _encoded(row: Row, identity: str) -> bytes:
    try:
        return msgspec.json.encode(row)
    except UnicodeEncodeError:
        # Half of a character pair, which only an escape can write.
        return json.dumps(row).encode()
    except (TypeError, ValueError) as error:
        raise ProblemError(f"record {identity!r} cannot be written as JSON: {error}") from error


def _sink(path: Path, partial: Path, dialect: Format) -> Any:
    kind = _kind(path)
    if kind == "csv":
        raise ConfigError(f"{path}: records have parts that a CSV file cannot hold; write .jsonl or .parquet")
    if kind == "parquet":
        _imported("pyarrow", "writing parquet")
        from pacore.data.table import TableSink

        return TableSink(partial, dialect.name)
    return _LineSink(_opened(partial, "wb"), array=kind == "json")


def _imported(name: str, feature: str, extra: str = "data") -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(feature, extra) from error
