"""Problems are read from what people have, and what is wrong with them is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pacore.errors import ProblemError
from pacore.problems import read_problem, read_problem_lines

CHAT = [{"role": "user", "content": "Why?"}]


@pytest.mark.parametrize(
    "record",
    [
        {"messages": CHAT},
        {"conversation": CHAT},
        {"question": "Why?"},
        {"problem": "Why?"},
        {"prompt": "Why?"},
        {"conversation": "Why?"},
    ],
)
def test_a_record_may_name_its_question_in_several_ways(record: dict[str, Any]) -> None:
    problem = read_problem({**record, "id": 7, "ground_truth": "because", "level": 3})
    assert list(problem.messages) == CHAT
    assert (problem.id, problem.ground_truth, problem.carried) == ("7", "because", {"level": 3, "id": 7})


def test_text_that_cannot_be_sent_is_told() -> None:
    with pytest.raises(ProblemError, match="cannot be sent as JSON"):
        read_problem("half a pair: \ud83d")


def test_without_an_id_the_same_question_has_the_same_one() -> None:
    assert read_problem("Why?").id == read_problem({"question": "Why?", "level": 2}).id
    assert read_problem("Why?").id != read_problem("How?").id


def test_a_file_is_read_a_line_at_a_time_and_blank_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "problems.jsonl"
    path.write_text('{"id": 1, "question": "a"}\n\n{"id": 2, "question": "b"}\n')
    assert [problem.id for problem in read_problem_lines(path)] == ["1", "2"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "not JSON"),
        ("[1]", "a problem is a JSON object"),
        ('{"id": 3}', "one of these keys must be there"),
        ('{"id": 1, "question": "a"}', "id '1' stands on an earlier line"),
        ('{"messages": [{"role": "tutor", "content": "x"}]}', "a role out of"),
        ('{"messages": [{"role": "user", "content": 3}]}', "must be a string or a list of parts"),
        ('{"messages": "x", "id": 4}\n{"messages": {"a": 1}}', "must be a list of messages"),
    ],
)
def test_a_bad_line_is_told_with_its_number(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "problems.jsonl"
    path.write_text('{"id": 1, "question": "a"}\n' + line + "\n")
    with pytest.raises(ProblemError, match=words) as caught:
        list(read_problem_lines(path))
    assert "problems.jsonl:" in str(caught.value)
