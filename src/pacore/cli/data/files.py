"""Options for files of records that the data commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from pacore.cli.progress import say
from pacore.data.files import RecordFile
from pacore.data.formats.registry import FORMATS

Source = Annotated[
    str,
    typer.Argument(metavar="FILE", help=".jsonl, .json, .parquet (.gz too), or hub:OWNER/NAME[:SPLIT]."),
]
Dialect = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help=f"Of the rows, where it is not to be guessed: {', '.join(FORMATS)}."
    ),
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Tell of lines that are no records and go on, instead of stopping.")
]


def open_records(source: str, dialect: str | None, skip_bad: bool) -> RecordFile:
    """The records of a source, with bad lines treated as asked."""
    return RecordFile(source, dialect=dialect, on_bad="skip" if skip_bad else "fail", report=say)
