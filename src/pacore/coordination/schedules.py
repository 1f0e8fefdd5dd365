"""Schedules by name, by widths, or from a table of pacore.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from pacore.config import checked, convert, unknown_name
from pacore.errors import ConfigError
from pacore.types import RoundSpec, Schedule

ScheduleLike: TypeAlias = str | Schedule
"""What the Python API takes as a schedule: a preset, widths such as ``"32,4"``, or a Schedule."""

_WIDTHS = re.compile(r"\[?\s*(\d+\s*(,\s*\d+\s*)*)?\]?")


def parse_schedule(text: ScheduleLike, named: Mapping[str, Mapping[str, Any]] | None = None) -> Schedule:
    """The schedule that ``text`` names.

    A table of ``named`` is looked up first, then the presets, then a list of widths such as ``32,4``
    (brackets allowed; ``[]`` is one plain call). Raises ConfigError for anything else.
    """
    if isinstance(text, Schedule):
        return checked(text, "schedule")
    if not isinstance(text, str):
        raise ConfigError(f"a schedule is a preset, widths such as '32,4' or a Schedule, not {text!r}")
    tables = named or {}
    if text in tables:
        return schedule_from_table(tables[text], name=text)
    if text in PRESETS:
        return PRESETS[text]
    if text.strip() and _WIDTHS.fullmatch(text.strip()):
        widths = [int(width) for width in re.findall(r"\d+", text)]
        if 0 in widths:
            raise ConfigError(
                f"schedule {text!r}: a round of 0 trajectories thinks nothing; widths start at 1"
            )
        return schedule_of_widths(*widths)
    known = {*tables, *PRESETS}
    raise ConfigError(f"{unknown_name('schedule', text, known)}; widths such as 32,4 are taken as well")


def schedule_of_widths(*widths: int, name: str = "", **settings: Any) -> Schedule:
    """Rounds of these widths that each read all messages; ``settings`` are fields of Schedule."""
    return Schedule(
        rounds=tuple(RoundSpec(width=width) for width in widths), name=name or _name_of(widths), **settings
    )


def schedule_from_table(table: Mapping[str, Any], *, name: str) -> Schedule:
    """A Schedule from a table. ``widths = [32, 4]`` is short for rounds; ``base`` starts from a preset."""
    place = f"schedule {name!r}"
    fields = dict(table)
    start: dict[str, Any] = {}
    if (base := fields.pop("base", None)) is not None:
        start = msgspec.to_builtins(parse_schedule(str(base)))
    if (widths := fields.pop("widths", None)) is not None:
        if "rounds" in fields:
            raise ConfigError(f"{place}: give widths or rounds, not both")
        if not isinstance(widths, list):
            raise ConfigError(f"{place}: widths is a list such as [32, 4], not {widths!r}")
        fields["rounds"] = [{"width": width} for width in widths]
    schedule = convert({**start, **fields, "name": name}, Schedule, place)
    check_schedule(schedule)
    return schedule


def check_schedule(schedule: Schedule) -> None:
    """Raise ConfigError for a schedule whose parts do not fit together."""
    name = schedule.name or "schedule"
    if schedule.finish != "synthesize" and not schedule.rounds:
        raise ConfigError(f"{name}: {schedule.finish} needs at least one round to choose from")
    if schedule.final.width != 1:
        raise ConfigError(f"{name}: the final round has one trajectory, not {schedule.final.width}")
    for number, spec in enumerate(schedule.rounds, start=1):
        if spec.needed > spec.width:
            raise ConfigError(
                f"{name}: round {number} asks for {spec.needed} messages of {spec.width} trajectories"
            )
        if spec.quorum is not None and not spec.needed <= spec.quorum.count <= spec.width:
            raise ConfigError(
                f"{name}: round {number} has a quorum of {spec.quorum.count}; "
                f"between {spec.needed} (its min_messages) and {spec.width} (its width) makes sense"
            )


def _name_of(widths: tuple[int, ...]) -> str:
    return ",".join(str(width) for width in widths) or "[]"


def _presets() -> dict[str, Schedule]:
    refine = RoundSpec(width=1)
    rsa = RoundSpec(width=16, reads=4)
    return {
        schedule.name: schedule
        for schedule in (
            schedule_of_widths(4, name="low"),
            schedule_of_widths(16, name="medium"),
            schedule_of_widths(32, 4, name="high"),
            schedule_of_widths(4, 4, 4, 4, name="step"),
            schedule_of_widths(name="single"),
            Schedule(rounds=(refine,) * 7, name="sequential"),
            schedule_of_widths(16, finish="vote", name="self-consistency"),
            schedule_of_widths(16, finish="select", name="best-of-n"),
            Schedule(rounds=(rsa, rsa, rsa), name="rsa"),
            Schedule(rounds=(RoundSpec(width=8, compact="summary"),) * 2, name="pdr"),
            Schedule(rounds=(RoundSpec(width=4, compact="tail"),) * 3, name="markovian"),
            Schedule(rounds=(RoundSpec(width=4, compact="none"),), name="no-compaction"),
        )
    }


PRESETS: Mapping[str, Schedule] = _presets()
