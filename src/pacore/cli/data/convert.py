"""``pacore data convert``: records from one format into another, and with a pool's messages inside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from pacore.cli.data import files
from pacore.cli.progress import say
from pacore.data.files import RecordFile, write_records
from pacore.data.formats.registry import FORMATS
from pacore.data.pool import MessagePool
from pacore.data.record import Record
from pacore.errors import ConfigError


def convert(
    source: files.Source,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new .jsonl, .json or .parquet (.gz too).")],
    to: Annotated[
        str, typer.Option(metavar="NAME", help=f"Format to write: {', '.join(FORMATS)}.")
    ] = "pacore",
    pool: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Put the messages of this pool into the records.")
    ] = None,
    dialect: files.Dialect = None,
    skip_bad: files.SkipBad = False,
) -> None:
    """Convert a file of problems to another format or kind of file."""
    records = files.open_records(source, dialect, skip_bad)
    if pool is None:
        written = write_records(out, records, dialect=to)
    else:
        with MessagePool(pool) as messages:
            written = write_records(out, _with_pool(records, messages), dialect=to)
    say(f"{written} records · {out}" + (f" · {records.skipped} lines skipped" if records.skipped else ""))


def _with_pool(records: RecordFile, pool: MessagePool) -> Iterator[Record]:
    for record in records:
        if record.id not in pool:
            raise ConfigError(
                f"the pool {pool.path} has nothing for the problem {record.id!r}; fill it first"
            )
        yield msgspec.structs.replace(record, pool=tuple(pool.responses(record.id)))
