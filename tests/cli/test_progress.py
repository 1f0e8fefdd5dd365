"""Progress is rows of marks in a terminal, and plain lines elsewhere."""

from __future__ import annotations

import io

from rich.console import Console

from pacore.cli.batch_progress import BatchDisplay
from pacore.cli.progress import DONE, FAILED, RunDisplay
from pacore.errors import CallRejectedError
from pacore.sampling.sampler import Call
from pacore.sampling.scripted import Line, ScriptedSampler
from support.running import run_events


def script(call: Call) -> Line:
    fault = CallRejectedError("not this one") if (call.round, call.index) == (1, 2) else None
    return Line(content=f"{call.seed}", fault=fault, pieces=3)


async def shown(*, terminal: bool, quiet: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100, color_system=None)
    with RunDisplay(console=console, quiet=quiet) as display:
        for event in await run_events(endpoint=ScriptedSampler(script), schedule="4,2"):
            display.take(event)
    return out.getvalue()


async def test_a_terminal_shows_a_row_a_round_and_a_mark_a_trajectory() -> None:
    text = await shown(terminal=True)
    assert f"round 1  {DONE}{DONE}{FAILED}{DONE}  4/4" in text
    assert f"round 2  {DONE}{DONE}  2/2" in text


async def test_elsewhere_there_are_plain_lines() -> None:
    text = await shown(terminal=False)
    assert "\x1b" not in text
    assert "round 1: 4 trajectories" in text
    assert "1.2 failed" in text
    assert "not this one" in text
    assert "round 1: 3 of 4 left a message" in text


async def test_quiet_says_nothing() -> None:
    assert not (await shown(terminal=False, quiet=True)).strip()


async def test_a_batch_without_a_terminal_tells_each_problem_and_the_time_left() -> None:
    out = io.StringIO()
    display = BatchDisplay(total=4, done=1, console=Console(file=out, force_terminal=False, width=100))
    with display:
        for event in await run_events(endpoint=ScriptedSampler(script), schedule="4"):
            display.take("p7", event)
    assert "2/4 p7 complete" in out.getvalue()
    assert "left" in out.getvalue()
