"""The commands of ``pacore eval`` put together."""

from __future__ import annotations

import typer

from pacore.cli.eval.benchmarks import benchmarks
from pacore.cli.eval.export import export
from pacore.cli.eval.report import report
from pacore.cli.eval.run import run

eval = typer.Typer(  # noqa: A001 - the verb's name
    name="eval",
    help="Methods compared on benchmarks at equal compute.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
for command in (run, report, export, benchmarks):
    eval.command()(command)
