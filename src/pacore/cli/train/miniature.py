"""``pacore train miniature``: the whole method in small, from nothing to the report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacore.cli.progress import say
from pacore.errors import MissingExtraError


def miniature(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Models, metrics, scores, and report.md.")],
    quick: Annotated[bool, typer.Option("--quick", help="A few minutes: smaller, and noisier.")] = False,
    seed: Annotated[int, typer.Option(help="Every random choice follows from it.")] = 0,
) -> None:
    """Pretrain a tiny model, fill pools, train it to synthesise, and compare: half an hour on two cores.

    The same command goes on where it stopped.
    """
    try:
        from pacore.training.miniature.pipeline import make_miniature
        from pacore.training.miniature.stages import QUICK, MiniatureSettings
    except ImportError as error:
        raise MissingExtraError("training", "train") from error
    import msgspec

    settings = msgspec.structs.replace(QUICK if quick else MiniatureSettings(), seed=seed)
    report = make_miniature(settings, out, say)
    say(f"the report is {report}")
    print(report)
