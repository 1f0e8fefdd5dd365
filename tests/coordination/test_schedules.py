"""Schedules by name, widths and table."""

from __future__ import annotations

from typing import Any

import pytest

from pacore.coordination.schedules import PRESETS, check_schedule, parse_schedule
from pacore.errors import ConfigError
from pacore.types import Quorum, RoundSpec, Schedule


def widths(schedule: Schedule) -> list[int]:
    return [spec.width for spec in schedule.rounds]


@pytest.mark.parametrize(
    ("text", "expected", "calls"),
    [
        ("low", [4], 5),
        ("medium", [16], 17),
        ("high", [32, 4], 37),
        ("step", [4, 4, 4, 4], 17),
        ("single", [], 1),
        ("32,4", [32, 4], 37),
        ("[32, 4]", [32, 4], 37),
        (" 8 ", [8], 9),
        ("[]", [], 1),
    ],
)
def test_names_and_widths_are_read(text: str, expected: list[int], calls: int) -> None:
    schedule = parse_schedule(text)
    assert widths(schedule) == expected
    assert schedule.planned_calls == calls
    assert all(spec.reads == "all" for spec in schedule.rounds)


def test_every_preset_fits_together() -> None:
    for name, schedule in PRESETS.items():
        check_schedule(schedule)
        assert schedule.name == name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hihg", "did you mean 'high'"),
        ("4,0", "widths start at 1"),
        ("4,,4", "no schedule '4,,4'"),
        ("-4", "no schedule"),
        ("", "no schedule"),
    ],
)
def test_nonsense_is_told(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_schedule(text)


def test_a_table_may_start_from_a_preset_and_comes_before_it() -> None:
    table: dict[str, Any] = {"base": "high", "final_attempts": 5}
    schedule = parse_schedule("high", {"high": table})
    assert widths(schedule) == [32, 4]
    assert (schedule.final_attempts, schedule.name) == (5, "high")


def test_a_table_gives_rounds_in_full() -> None:
    table = {
        "finish": "vote",
        "rounds": [{"width": 8, "quorum": {"count": 6, "grace_s": 2.5}, "sampling": {"temperature": 0.7}}],
    }
    (spec,) = parse_schedule("mine", {"mine": table}).rounds
    assert spec.quorum == Quorum(6, 2.5)
    assert spec.sampling is not None
    assert spec.sampling.temperature == 0.7


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"widths": [4], "rounds": []}, "widths or rounds, not both"),
        ({"widths": 4}, r"list such as \[32, 4\]"),
        ({"widths": [0]}, "Expected `int` >= 1"),
        ({"finsh": "vote"}, "did you mean 'finish'"),
        ({"finish": "vote"}, "needs at least one round"),
        ({"rounds": [{"width": 2, "min_messages": 3}]}, "asks for 3 messages of 2"),
        ({"rounds": [{"width": 8, "quorum": {"count": 2}}]}, "quorum of 2"),
    ],
)
def test_a_table_that_does_not_fit_is_told(table: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_schedule("mine", {"mine": table})


def test_half_of_the_width_is_needed_by_default() -> None:
    assert [RoundSpec(width=width).needed for width in (1, 2, 3, 32)] == [1, 1, 1, 16]
