"""The commands of ``pacore train`` put together."""

from __future__ import annotations

import typer

from pacore.cli.train.miniature import miniature
from pacore.cli.train.ppo import ppo

train = typer.Typer(
    name="train",
    help="Reinforcement learning of synthesis.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
for command in (miniature, ppo):
    train.command()(command)
