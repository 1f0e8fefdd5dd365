"""Running schedules in tests: against the mock endpoint, or a scripted sampler."""

from __future__ import annotations

from typing import Any

import pacore
from pacore.events import Event, RunFinished
from pacore.types import Result

QUESTION = "How many positive divisors does 360 have?"


async def run_events(problem: Any = QUESTION, **options: Any) -> list[Event]:
    """All events of a run."""
    return [event async for event in pacore.stream(problem, **options)]


def result_of(events: list[Event]) -> Result:
    """The result in the last event."""
    last = events[-1]
    assert isinstance(last, RunFinished)
    return last.result


def codes(result: Result) -> list[str]:
    """The codes of a result's warnings."""
    return [warning.code for warning in result.warnings]


def of_kind(events: list[Event], kind: type) -> list[Any]:
    """The events of one kind."""
    return [event for event in events if isinstance(event, kind)]
