"""Trajectories by key: kept, compressed, read one at a time, whatever happened to the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pacore.errors import JournalError
from pacore.traces.store import KeepReasoning, TrajectoryStore
from pacore.types import Trajectory


def a_trajectory(**fields: Any) -> Trajectory:
    return Trajectory(
        round=1, index=0, status="complete", **{"content": "42", "reasoning": "so " * 500, **fields}
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trajectories.jsonl"


def fill(path: Path, number: int, reasoning: KeepReasoning = "packed") -> None:
    with TrajectoryStore(path, reasoning=reasoning) as store:
        for place in range(len(store), number):
            store.append(f"p#{place}", a_trajectory(content=f"é {place}"))


@pytest.mark.parametrize("reasoning", ["packed", "kept"])
def test_what_is_kept_comes_back(path: Path, reasoning: KeepReasoning) -> None:
    fill(path, 5, reasoning)
    with TrajectoryStore(path) as store:
        assert list(store.keys()) == [f"p#{place}" for place in range(5)]
        assert store["p#3"] == a_trajectory(content="é 3")
        assert "p#5" not in store
        with pytest.raises(KeyError):
            store["p#5"]


def test_reasoning_is_compressed_or_dropped_by_choice(tmp_path: Path) -> None:
    sizes = {}
    choices: tuple[KeepReasoning, ...] = ("packed", "kept", "dropped")
    for choice in choices:
        fill(tmp_path / choice, 1, choice)
        sizes[choice] = (tmp_path / choice).stat().st_size
    assert sizes["dropped"] < sizes["packed"] < sizes["kept"] / 2
    with TrajectoryStore(tmp_path / "dropped") as store:
        assert store["p#0"].reasoning == ""


def test_text_that_is_no_valid_unicode_is_kept(path: Path) -> None:
    with TrajectoryStore(path) as store:
        store.append("p#0", a_trajectory(reasoning="half a pair: \ud800"))
    with TrajectoryStore(path) as store:
        assert store["p#0"].reasoning == "half a pair: \ud800"


def damage_nothing(path: Path, index: Path) -> None:
    """For comparison."""


def drop_index(path: Path, index: Path) -> None:
    index.unlink()


def tear_index(path: Path, index: Path) -> None:
    index.write_bytes(index.read_bytes()[:-7])


def scramble_index(path: Path, index: Path) -> None:
    index.write_bytes(b"no index\n" * 3)


def other_index(path: Path, index: Path) -> None:
    index.write_bytes(b'[0,10,"p#0"]\n[10,99999999,"p#1"]\n')


def index_behind(path: Path, index: Path) -> None:
    index.write_bytes(b"".join(index.read_bytes().splitlines(keepends=True)[:2]))


DAMAGES = [damage_nothing, drop_index, tear_index, scramble_index, other_index, index_behind]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("writable", [True, False])
def test_a_lost_or_damaged_index_costs_nothing(path: Path, damage: Any, writable: bool) -> None:
    fill(path, 4)
    damage(path, path.with_name("trajectories.jsonl.index"))
    with TrajectoryStore(path, writable=writable) as store:
        assert [store[f"p#{place}"].content for place in range(4)] == [f"é {place}" for place in range(4)]
    fill(path, 6)
    with TrajectoryStore(path) as store:
        assert [store[f"p#{place}"].content for place in range(6)] == [f"é {place}" for place in range(6)]


def test_a_torn_last_line_is_cut_off_and_made_again(path: Path) -> None:
    fill(path, 3)
    path.write_bytes(path.read_bytes()[:-20])
    with TrajectoryStore(path) as store:
        assert list(store.keys()) == ["p#0", "p#1"]
    fill(path, 3)
    with TrajectoryStore(path) as store:
        assert store["p#2"].content == "é 2"


def test_a_line_of_another_kind_is_told(path: Path) -> None:
    fill(path, 1)
    with path.open("a") as file:
        file.write(json.dumps({"something": "else"}) + "\n")
    with pytest.raises(JournalError, match="is no trajectory"):
        TrajectoryStore(path)
