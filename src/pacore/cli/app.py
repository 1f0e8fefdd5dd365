"""The ``pacore`` command: puts the verbs together and turns errors into one sentence each."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

from pacore.cli.ask import ask
from pacore.cli.doctor import doctor
from pacore.cli.run import run
from pacore.cli.verify import verify
from pacore.cli.view import view
from pacore.errors import PacoreError
from pacore.version import __version__

EXIT_COMPLETE = 0
EXIT_USAGE = 1
EXIT_INCOMPLETE = 2
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="pacore",
    help="Parallel coordinated reasoning over any chat endpoint.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(ask)
app.command()(run)
app.command()(view)
app.command()(verify)
app.command()(doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pacore {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Parallel coordinated reasoning over any chat endpoint."""


def main() -> None:
    """Run the command; an expected error is one sentence on stderr and exit status 1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character must not cost the answer.
            stream.reconfigure(errors="backslashreplace")
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    try:
        status = app(standalone_mode=False)
        sys.stdout.flush()
    except PacoreError as error:
        _complain(str(error))
        status = EXIT_USAGE
    except typer.TyperException as error:
        _complain(f"{error.format_message()} (pacore --help)")
        status = EXIT_USAGE
    except (typer.Abort, KeyboardInterrupt):
        status = EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (| head): nothing is wrong, and nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = EXIT_COMPLETE
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _complain(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        status = EXIT_USAGE
    sys.exit(status)


def _complain(sentence: str) -> None:
    print(f"pacore: {sentence}", file=sys.stderr)
