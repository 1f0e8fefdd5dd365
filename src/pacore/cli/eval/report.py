"""``pacore eval report``: evaluations into one page, one Markdown file, and their numbers as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacore.cli.progress import say
from pacore.errors import MissingExtraError


def report(
    evaluations: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Directories of `pacore eval run`.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the report goes.")],
    title: Annotated[str, typer.Option(help="Its heading.")] = "",
    seed: Annotated[int, typer.Option(help="Of the resampling.")] = 0,
) -> None:
    """Write report.html, report.md, report.json and the figures, over one or many evaluations.

    Several benchmarks make a table of models and methods against benchmarks; several steps of training a
    figure over training.
    """
    try:
        from pacore.evals.report import write_report
        from pacore.evals.summary import summarize
    except ImportError as error:
        raise MissingExtraError("evaluation reports", "eval") from error
    written = write_report([summarize(path, seed=seed) for path in evaluations], out, title=title)
    say(f"{written[0]} · {len(written) - 1} more files beside it")
