"""``pacore eval benchmarks``: what is described here, and where its data comes from."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

from pacore.evals.benchmark import benchmark_names, load_benchmark


def benchmarks() -> None:
    """List the benchmarks: runs a problem, where the data can be had, its licence. None of it is shipped."""
    table = Table("name", "title", "runs", "data", "license", box=None, pad_edge=False)
    for name in benchmark_names():
        found = load_benchmark(name)
        where = f"hub:{found.hub}:{found.split}" if found.hub is not None else "--data FILE"
        table.add_row(name, found.title, str(found.runs), where, found.license)
    Console(highlight=False, soft_wrap=True).print(table)
    for name in benchmark_names():
        if note := load_benchmark(name).note:
            typer.echo(f"{name}: {note}")
