"""The commands of ``pacore data`` put together."""

from __future__ import annotations

import typer

from pacore.cli.data.check import check
from pacore.cli.data.convert import convert
from pacore.cli.data.pool import pool

data = typer.Typer(
    name="data",
    help="Message pools and training corpora.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
for command in (pool, convert, check):
    data.command()(command)
