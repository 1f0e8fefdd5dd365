"""The ``pacore`` command: puts the verbs together and turns errors into one sentence each."""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pacore.errors import PacoreError
from pacore.version import __version__

EXIT_COMPLETE = 0
EXIT_USAGE = 1
EXIT_INCOMPLETE = 2
EXIT_INTERRUPTED = 130

VERBS = ("ask", "run", "view", "verify", "data", "eval", "train", "demo", "doctor")
"""Each is ``pacore.cli.VERB``, whose object of that name is a command's function or a Typer of several."""


class Verbs(TyperGroup):
    """The verbs, each imported when it is called: ``pacore view`` waits for no HTTP client."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Name the verbs in the order of their help."""
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the verb's module and make its command."""
        if cmd_name not in VERBS:
            return None
        verb = getattr(import_module(f"pacore.cli.{cmd_name}"), cmd_name)
        if isinstance(verb, typer.Typer):
            return typer.main.get_group(verb)
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(cmd_name)(verb)
        return typer.main.get_command(single)


app = typer.Typer(
    name="pacore",
    cls=Verbs,
    help="Parallel coordinated reasoning over any chat endpoint.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


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
