"""Makes terminal.svg: runs the command in a real pseudo-terminal and draws the screen it left.

    python docs/images/picture.py "How many …?" --schedule 8,2 …

The arguments are those of ``pacore ask``.
"""

import io
import os
import pty
import re
import shlex
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 96


def recorded(command: list[str]) -> str:
    """Everything the command wrote to its terminal."""
    pieces: list[bytes] = []

    def read(descriptor: int) -> bytes:
        data = os.read(descriptor, 65_536)
        pieces.append(data)
        return data

    os.environ.update(COLUMNS=str(WIDTH), LINES="40", TERM="xterm-256color")
    pty.spawn(command, read)
    return b"".join(pieces).decode().replace("\r\n", "\n")


def last_screen(output: str) -> str:
    """What stays on the screen: the lines before the live rows, and the last drawing of those."""
    first, *drawings = re.split(r"(?:\x1b\[2K|\r)(?:\x1b\[1A\x1b\[2K)+|\x1b\[\?25[lh]", output)
    kept = [first, *(drawing for drawing in drawings if drawing.strip())]
    head = kept[0] if "round" not in kept[0] else ""
    return (head + "".join(kept[-2:])).replace("\r", "")


def main() -> None:
    """Record, draw, write."""
    arguments = sys.argv[1:]
    screen = last_screen(recorded(["pacore", "ask", *arguments]))
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ pacore ask {shlex.join(arguments)}", style="bold"))
    console.print(Text.from_ansi(screen))
    picture = console.export_svg(title="pacore")
    # No fonts from elsewhere: the reader's own monospace will do.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    (Path(__file__).parent / "terminal.svg").write_text(picture)


main()
