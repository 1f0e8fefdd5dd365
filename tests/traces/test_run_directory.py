"""A run directory holds its settings and its results, for one process at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from pacore.errors import JournalError
from pacore.traces.run_directory import RunDirectory, trace_path
from pacore.types import Result

SETTINGS = {"seed": 0, "schedule": {"widths": [4]}}


def result(problem_id: str, status: str = "complete") -> Result:
    return Result(id=problem_id, status=status, answer="24", carried={"level": 5, "status": "theirs"})  # type: ignore[arg-type]


def test_results_come_back_and_carried_keys_never_hide_our_own(tmp_path: Path) -> None:
    with RunDirectory(tmp_path, SETTINGS) as directory:
        directory.append(result("a"))
        assert directory.statuses() == {"a": "complete"}
    assert b'"level":5' in (tmp_path / "results.jsonl").read_bytes()


def test_a_torn_last_result_is_cut_off(tmp_path: Path) -> None:
    with RunDirectory(tmp_path, SETTINGS) as directory:
        directory.append(result("a"))
    with (tmp_path / "results.jsonl").open("ab") as file:
        file.write(b'{"id": "b", "sta')
    with RunDirectory(tmp_path, SETTINGS) as directory:
        assert directory.statuses() == {"a": "complete"}
        directory.append(result("b"))
        assert set(directory.statuses()) == {"a", "b"}


def test_other_settings_are_refused_and_named(tmp_path: Path) -> None:
    with RunDirectory(tmp_path, SETTINGS):
        pass
    with pytest.raises(JournalError, match="seed was 0, is 1"):
        RunDirectory(tmp_path, {**SETTINGS, "seed": 1})


def test_two_processes_cannot_write_to_one_directory(tmp_path: Path) -> None:
    with RunDirectory(tmp_path, SETTINGS), pytest.raises(JournalError, match="another pacore is writing"):
        RunDirectory(tmp_path, SETTINGS)


def test_failed_and_degraded_results_can_be_forgotten(tmp_path: Path) -> None:
    with RunDirectory(tmp_path, SETTINGS) as directory:
        for name, status in (("a", "complete"), ("b", "failed"), ("c", "degraded")):
            directory.append(result(name, status))
        assert directory.forget_failed() == 2
        directory.append(result("b"))
        assert directory.statuses() == {"a": "complete", "b": "complete"}


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "", "数学", "x" * 300, ".", "a b"])
def test_any_id_makes_a_file_name_inside_the_directory(tmp_path: Path, name: str) -> None:
    path = trace_path(tmp_path, name)
    assert path.parent == tmp_path / "trace"
    assert len(path.name) < 100
    path.parent.mkdir()
    path.touch()


def test_ids_that_look_alike_have_files_of_their_own(tmp_path: Path) -> None:
    assert len({trace_path(tmp_path, name) for name in ("a/b", "a-b", "a b", "A-b")}) == 4


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match="choose another --out"):
        RunDirectory(tmp_path / "file", SETTINGS)
