"""``pacore data build``: a corpus from its recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacore.cli import options, verifying
from pacore.cli.counting import CountDisplay
from pacore.cli.progress import say
from pacore.config import load_config
from pacore.data.build import CORPUS, Counts, build_corpus
from pacore.data.card import write_card
from pacore.data.recipe import Recipe, load_recipe
from pacore.data.stepping import Workplace
from pacore.errors import PacoreError
from pacore.sampling.embedded import EngineSettings

Processes = Annotated[int | None, typer.Option(min=1, help="Processes to use; all cores by default.")]


def build(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE.toml", help="Sources and steps.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The corpus; goes on where it stopped.")],
    processes: Processes = None,
    concurrency: options.Concurrency = None,
    headers: verifying.Headers = None,
    allow_unsafe_exec: verifying.AllowUnsafe = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    config: options.ConfigPath = None,
    gguf: options.Gguf = None,
    offline: options.Offline = False,
) -> None:
    """Take the problems of a recipe through its steps, and write the corpus with its card.

    Run the same command again to go on where it stopped; steps that have changed, and those after them, are
    done anew.
    """
    loaded = load_recipe(recipe)
    settings = load_config(config)

    def workplace(folder: Path) -> Workplace:
        return Workplace(
            config=settings,
            folder=folder,
            base=Path(loaded.folder),
            engine=EngineSettings(gguf=gguf, offline=offline),
            processes=processes,
            concurrency=concurrency,
            allow_unsafe=allow_unsafe_exec,
            headers=headers,
            report=say,
        )

    display = StepDisplay(quiet=quiet)
    try:
        counts = build_corpus(loaded, out, workplace, told=display.take)
    except (KeyboardInterrupt, PacoreError):
        display.close()
        say("stopped: finished steps are kept; run the same command again to go on")
        raise
    display.close()
    tell_counts(loaded, counts, out)


def tell_counts(recipe: Recipe, counts: list[Counts], out: Path) -> None:
    """The funnel on stdout, and where the corpus is."""
    for found in counts:
        reasons = ", ".join(f"{count} {name}" for name, count in found.reasons.items())
        skipped = f"; {found.skipped} bad lines skipped" if found.skipped else ""
        typer.echo(f"{found.step:<14}{found.taken:>9} in {found.left:>9} out  {reasons}{skipped}".rstrip())
    say(f"{counts[-1].left} problems · {out / CORPUS} · {write_card(recipe, counts, out)}")


class StepDisplay:
    """A bar for the step at work."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._step = ""
        self._display: CountDisplay | None = None

    def take(self, step: str, done: int, total: int | None) -> None:
        """Show how far the step is."""
        if step != self._step:
            self.close()
            self._step = step
            self._display = CountDisplay(f"{step}: problems", total=total, quiet=self._quiet)
            self._display.__enter__()
        assert self._display is not None
        self._display.show(done)

    def close(self) -> None:
        """End the bar."""
        if self._display is not None:
            self._display.__exit__(None, None, None)
            self._display = None
            self._step = ""
