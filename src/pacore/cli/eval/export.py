"""``pacore eval export``: results as logs of Inspect, for its viewer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacore.cli.progress import say
from pacore.evals.inspect_log import write_inspect_logs


def export(
    evaluation: Annotated[Path, typer.Argument(metavar="DIR", help="A directory of `pacore eval run`.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the .eval files go.")],
) -> None:
    """Write one Inspect log a method: every problem with its runs as epochs, answers, scores and costs."""
    written = write_inspect_logs(evaluation, out)
    say(f"{len(written)} logs in {out} · `inspect view --log-dir {out}` shows them")
