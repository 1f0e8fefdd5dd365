"""``pacore verify``: verdicts on the lines of a file, and how they fit what was expected."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from pacore.cli.progress import say
from pacore.errors import ConfigError
from pacore.verifiers.lines import verify_lines

_PROGRESS_EVERY = 10.0


class Tally:
    """Sums up verdicts in constant memory; times go into buckets of 5 %."""

    def __init__(self) -> None:
        self.verdicts: Counter[str] = Counter()
        self.agreed = self.judged = self.false_accepts = self.false_rejects = 0
        self.sandboxes: Counter[str] = Counter()
        self._times: Counter[int] = Counter()

    def add(self, found: dict[str, Any]) -> None:
        """Count one verdict."""
        self.verdicts[found["verdict"]] += 1
        if (sandbox := found["evidence"].get("sandbox")) is not None:
            self.sandboxes[sandbox] += 1
        self._times[round(math.log(max(found["ms"], 1e-3)) / math.log(1.05))] += 1
        if isinstance(found.get("expected"), bool):
            accepted = found["verdict"] == "correct"
            self.judged += 1
            self.agreed += accepted == found["expected"]
            self.false_accepts += accepted and not found["expected"]
            self.false_rejects += found["expected"] and not accepted

    def percentile(self, share: float) -> float:
        """Milliseconds that this share of the verdicts stayed within."""
        left = share * sum(self._times.values())
        for bucket in sorted(self._times):
            left -= self._times[bucket]
            if left <= 0:
                return 1.05**bucket
        return 0.0

    def summary(self, seconds: float) -> list[str]:
        """The closing lines."""
        total = sum(self.verdicts.values())
        counts = ", ".join(f"{count} {name}" for name, count in sorted(self.verdicts.items()))
        times = ", ".join(
            f"{name} {self.percentile(share):.2g} ms" for name, share in (("median", 0.5), ("p99", 0.99))
        )
        lines = [f"{total} lines: {counts or 'none'} · {times} · {seconds:.1f} s"]
        lines += [f"{count} programs run in {name}" for name, count in self.sandboxes.items()]
        if self.judged:
            lines.append(
                f"as expected: {self.agreed} of {self.judged} ({self.agreed / self.judged:.1%}), "
                f"{self.false_accepts} accepted wrongly, {self.false_rejects} not accepted"
            )
        return lines


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="One case a line; - reads stdin.")],
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes to use; all cores by default.")
    ] = None,
    headers: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of what special judges include, as testlib.h.")
    ] = None,
    allow_unsafe_exec: Annotated[
        bool,
        typer.Option("--allow-unsafe-exec", help="Run programs even where nothing contains them."),
    ] = False,
) -> None:
    """Print a verdict for each line of a file as JSON; the summary goes to stderr."""
    if str(file) != "-" and not file.is_file():
        raise ConfigError(f"there is no file {file}; give a JSONL file with one case a line")
    if headers is not None and not headers.is_dir():
        raise ConfigError(f"there is no folder {headers}; give the one that holds testlib.h")
    if allow_unsafe_exec:
        say("programs run with resource limits only where no sandbox works: they can do all that you can")
    tally, begun = Tally(), time.monotonic()
    last = begun
    found_lines = verify_lines(
        _lines(file), processes=processes, allow_unsafe=allow_unsafe_exec, headers=headers
    )
    for number, found in enumerate(found_lines, start=1):
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        tally.add(found)
        if time.monotonic() - last > _PROGRESS_EVERY:
            last = time.monotonic()
            say(f"{number} lines, {number / (last - begun):.0f}/s")
    console = Console(stderr=True, highlight=False)
    for line in tally.summary(time.monotonic() - begun):
        console.print(line, markup=False, soft_wrap=True)


def _lines(file: Path) -> Iterator[bytes]:
    if str(file) == "-":
        yield from (line for line in sys.stdin.buffer if line.strip())
        return
    with file.open("rb") as lines:
        yield from (line for line in lines if line.strip())
