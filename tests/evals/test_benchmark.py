"""Benchmarks as declared: all of them load, and rows of their official shapes become problems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pacore.data.record import Record
from pacore.data.truths import AssertTruth, MathTruth, RubricTruth
from pacore.errors import ConfigError, ProblemError
from pacore.evals.benchmark import Benchmark, benchmark_names, load_benchmark
from pacore.evals.methods import parse_methods

PAPER_RUNS = {
    "aime_2025": 64,
    "hmmt_feb_2025": 64,
    "apex_2025": 64,
    "imo_answerbench": 8,
    "livecodebench": 8,
    "multichallenge": 8,
    "hle_text": 1,
}


def read(name: str | Benchmark, rows: list[dict[str, Any]], tmp_path: Path) -> list[Record]:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    benchmark = load_benchmark(name) if isinstance(name, str) else name
    return list(benchmark.records(str(path)))


def test_every_declared_benchmark_loads_with_the_runs_of_the_paper() -> None:
    runs = {name: load_benchmark(name).runs for name in benchmark_names()}
    assert {name: runs[name] for name in PAPER_RUNS} == PAPER_RUNS
    assert {"aime_2024", "gsm8k", "math_500", "humaneval"} <= runs.keys()


def test_math_is_asked_for_a_boxed_answer(tmp_path: Path) -> None:
    (record,) = read("hmmt_feb_2025", [{"problem_idx": 3, "problem": "1+1?", "answer": "2"}], tmp_path)
    assert (record.id, record.truth) == ("3", MathTruth(answer="2"))
    assert record.question.startswith("1+1?\n\n")
    assert "\\boxed{}" in record.question


def test_records_of_known_formats_are_read_as_well(tmp_path: Path) -> None:
    row = {
        "id": "x",
        "messages": [{"role": "user", "content": "1+1?"}],
        "ground_truth": {"type": "math", "answer": 2},
    }
    (record,) = read("aime_2025", [row], tmp_path)
    assert (record.id, record.truth) == ("x", MathTruth(answer="2"))


def test_official_rows_of_gsm8k_have_their_answer_behind_a_mark(tmp_path: Path) -> None:
    rows = [{"question": "How many?", "answer": "3 + 4 = 7\n#### 1,234"}]
    assert read("gsm8k", rows, tmp_path)[0].truth == MathTruth(answer="1,234")
    with pytest.raises(ProblemError, match="no '####'"):
        read("gsm8k", [{"question": "How many?", "answer": "7"}], tmp_path)


def test_official_rows_of_humaneval_become_asserts(tmp_path: Path) -> None:
    row = {"task_id": "H/0", "prompt": "def f():\n", "test": "def check(c): pass", "entry_point": "f"}
    (record,) = read("humaneval", [row], tmp_path)
    wanted = AssertTruth(harness="def check(c): pass", prelude="def f():\n", entry_point="f")
    assert (record.id, record.truth) == ("H/0", wanted)


def test_images_are_left_out_of_hle(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "question": "q", "answer": "r", "image": ""},
        {"id": "b", "question": "q", "answer": "r", "image": "data:image/png;base64,xx"},
    ]
    assert [record.id for record in read("hle_text", rows, tmp_path)] == ["a"]


def test_a_conversation_with_a_target_question_becomes_a_rubric(tmp_path: Path) -> None:
    conversation = [
        {"role": "user", "content": "I am vegan."},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": "Dinner?"},
    ]
    row = {
        "QUESTION_ID": "q1",
        "AXIS": "MEMORY",
        "CONVERSATION": conversation,
        "TARGET_QUESTION": "Does it suggest meat?",
        "PASS_CRITERIA": "NO",
    }
    (record,) = read("multichallenge", [row], tmp_path)
    assert record.messages == tuple(conversation)
    assert record.truth == RubricTruth(target_question="Does it suggest meat?", pass_criteria="NO")
    assert record.extra == {"axis": "MEMORY"}


def test_livecodebench_is_cut_by_date_and_asked_by_kind(tmp_path: Path) -> None:
    def row(date: str, starter: str, metadata: str) -> dict[str, Any]:
        return {
            "question_id": date,
            "question_content": "Add.",
            "starter_code": starter,
            "contest_date": f"{date}T00:00:00",
            "public_test_cases": '[{"input": "1", "output": "1", "testtype": "stdin"}]',
            "private_test_cases": "[]",
            "metadata": metadata,
        }

    rows = [
        row("2024-07-31", "", "{}"),
        row("2024-08-01", "", "{}"),
        row("2025-05-31", "class Solution:", '{"func_name": "add"}'),
        row("2025-06-01", "", "{}"),
    ]
    stdin, function = read("livecodebench", rows, tmp_path)
    assert (stdin.id, function.id) == ("2024-08-01", "2025-05-31")
    assert "standard input" in stdin.question
    assert "completes the given signature" in function.question


def test_a_file_of_problems_is_a_benchmark_as_it_stands(tmp_path: Path) -> None:
    rows = [{"id": "a", "question": "Why {x}?", "ground_truth": 1}]
    (record,) = read(load_benchmark("my.set.jsonl"), rows, tmp_path)
    assert record.question == "Why {x}?"


def test_a_description_of_ones_own_is_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('title = "Mine"\nprompt = "Q: {question}\\nA:"\n')
    rows = [{"id": "a", "question": "Why {x}?", "ground_truth": 1}]
    (record,) = read(load_benchmark(str(path)), rows, tmp_path)
    assert record.question == "Q: Why {x}?\nA:"
    for text, wrong in [
        ('title = "M"\nprompts = "x"', "prompts"),
        ('title = "M"\nprompt = "{x}"', "question"),
        ("title = ", "not TOML"),
        ('prompt = "math"', "title"),
        ('title = "M"\nprompt = "no place"', "nothing would be asked"),
        ('title = "M"\nprompt = "{question.x}"', "only the place"),
        ('title = "M"\nname = "../../x"', "letters, digits"),
    ]:
        path.write_text(text)
        with pytest.raises(ConfigError, match=wrong):
            load_benchmark(str(path))


def test_unknown_names_are_told_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="hmmt_feb_2025"):
        load_benchmark("hmmt_feb_2026")
    with pytest.raises(ConfigError, match="give --data FILE"):
        load_benchmark("imo_answerbench").source(None)
    assert load_benchmark("math_500").source(None).startswith("hub:")


def test_methods_are_schedules_widths_and_votes() -> None:
    found = parse_methods("low, [32,4],self-consistency@64 ,single")
    assert [method.name for method in found] == ["low", "[32,4]", "self-consistency@64", "single"]
    assert [method.votes for method in found] == [None, None, 64, None]
    widths = found[1].schedule
    assert widths is not None
    assert [spec.width for spec in widths.rounds] == [32, 4]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "at least one method"),
        ("low,low", "named twice"),
        ("loww", "low"),
        ("self-consistency@0", "at least one"),
    ],
)
def test_methods_that_are_none_are_told(text: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        parse_methods(text)
