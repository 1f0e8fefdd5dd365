"""``pacore data check``: whether every truth of a file can be verified at all."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import msgspec
import typer

from pacore.cli import verifying
from pacore.cli.data import files
from pacore.cli.progress import say
from pacore.data.checking import check_truths

EXIT_SOME_FAIL = 2


def check(
    source: files.Source,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes to use; all cores by default.")
    ] = None,
    dialect: files.Dialect = None,
    skip_bad: files.SkipBad = False,
    headers: verifying.Headers = None,
    allow_unsafe_exec: verifying.AllowUnsafe = False,
) -> None:
    """Hold every truth against itself: answers, and reference solutions where the records bring one.

    Prints the records that fail as JSON lines; exit status 2 where there are any.
    """
    records = files.open_records(source, dialect, skip_bad)
    counts: Counter[str] = Counter()
    for found in check_truths(records, processes=processes, headers=headers, allow_unsafe=allow_unsafe_exec):
        counts[found.outcome] += 1
        if found.outcome == "fails":
            typer.echo(
                msgspec.json.encode({"id": found.id, "kind": found.kind, "reason": found.reason}).decode()
            )
    total = sum(counts.values())
    told = ", ".join(f"{counts[name]} {words}" for name, words in _WORDS.items() if counts[name])
    say(f"{total} records: {told or 'none'}")
    if counts["fails"] or records.skipped:
        raise typer.Exit(EXIT_SOME_FAIL)


_WORDS = {
    "holds": "verify against themselves",
    "fails": "do not",
    "untested": "have nothing to be held against (tests without a solution, rubrics, opaque truths)",
}
