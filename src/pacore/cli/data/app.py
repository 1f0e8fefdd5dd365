"""The commands of ``pacore data`` put together."""

from __future__ import annotations

import typer

from pacore.cli.data import steps
from pacore.cli.data.build import build
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
for command in (pool, build, convert, check):
    data.command()(command)
data.command("filter")(steps.filter_rules)
for step in (
    steps.deduplicate,
    steps.decontaminate,
    steps.validity,
    steps.arithmetic,
    steps.tests,
    steps.checker,
    steps.stage1,
    steps.stage2,
):
    data.command()(step)
