"""Every format, out and in again, with records made to be awkward."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest

from pacore.data.files import RecordFile, RecordWriter, write_records
from pacore.data.formats.registry import FORMATS, detect_format
from pacore.data.record import Record, Response
from pacore.data.truths import (
    AssertTruth,
    ChoiceTruth,
    IntegerTruth,
    MathTruth,
    OpaqueTruth,
    ProgramTruth,
    RubricTruth,
    read_truth,
)
from pacore.errors import ConfigError, ProblemError

ODD = 'line one\n\t"quotes" \\frac{1}{2} \u2028 \0 é 数 😀 {"type":"math"} </think>'
TESTS = ProgramTruth(
    tests=({"input": "1 2\n", "output": "3\n", "public": True}, {"input": "", "output": ODD}),
)
CALLED = ProgramTruth(tests=({"input": "[1]\n2", "output": "3"},), fn_name="add")


def a_record(**changes: Any) -> Record:
    fields: dict[str, Any] = {
        "id": "set/1 ü",
        "messages": ({"role": "system", "content": "Be terse."}, {"role": "user", "content": ODD}),
        "truth": MathTruth(answer="\\frac{3}{4}"),
        "pool": (
            Response(content="plain"),
            Response(content="{}"),
            Response(content=ODD, reasoning="so", reward=0.5, extra={"model": "m", "tokens": 12}),
        ),
        "source": "a set",
        "license": "CC-BY-4.0",
        "origin": "file.jsonl:3",
        "extra": {"level": 3, "tags": ["a", {"b": None}], "text": "[1]"},
    }
    return Record(**{**fields, **changes})


PLAIN = {"messages": ({"role": "user", "content": ODD},), "pool": ()}
RECORDS = {
    "math": a_record(),
    "number-like": a_record(truth=MathTruth(answer="042")),
    "json-like": a_record(truth=MathTruth(answer="[1, 2]")),
    "big": a_record(truth=IntegerTruth(answer="9" * 60)),
    "tests": a_record(truth=TESTS),
    "function": a_record(truth=CALLED),
    "judge": a_record(
        truth=ProgramTruth(
            tests=({"input": "1", "output": "1", "name": "t"},),
            checker={"language": "cpp", "source": "int main(){}"},
            limits={"time_s": 2.0},
            extra={"reference": {"language": "cpp", "source": "//"}},
        )
    ),
    "asserts": a_record(truth=AssertTruth(harness="assert f(1)", prelude="import math\n", entry_point="f")),
    "choice": a_record(truth=ChoiceTruth(answer="B", choices=("one", "two"))),
    "rubric": a_record(truth=RubricTruth(target_question="Did it?", pass_criteria="NO", extra={"axis": "x"})),
    "opaque": a_record(truth=OpaqueTruth(value={"type": "reasoning_gym", "entry": {"a": [1]}})),
    "nothing": a_record(truth=OpaqueTruth(value=None), pool=(), source="", license="", origin="", extra={}),
    "parts": a_record(
        messages=(
            {"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image_url", "url": "u"}]},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f"}}]},
            {"role": "tool", "content": "42", "tool_call_id": "1"},
        )
    ),
    "one-question": a_record(**PLAIN, truth=TESTS),
    "one-function": a_record(**PLAIN, truth=CALLED),
}
ANY = ("pacore", "train8k", "verl", "trl", "verifiers")
CODE = ("livecodebench", "deepcoder")
CASES = [(dialect, name) for dialect in ANY for name in RECORDS] + [
    (dialect, name) for dialect in CODE for name in ("one-question", "one-function")
]


def again(record: Record, dialect: str, path: Path) -> Record:
    write_records(path, [record], dialect=dialect)
    (found,) = RecordFile(path, dialect=dialect)
    return found


@pytest.mark.parametrize("ending", ["jsonl", "json", "jsonl.gz", "parquet"])
@pytest.mark.parametrize(("dialect", "name"), CASES)
def test_a_record_comes_back_as_it_was(dialect: str, name: str, ending: str, tmp_path: Path) -> None:
    record = RECORDS[name]
    if ending == "parquet" and name == "parts" and dialect != "pacore":
        with pytest.raises(ProblemError, match=r"has no place in this table; write \.jsonl"):
            again(record, dialect, tmp_path / f"r.{ending}")
        return
    assert again(record, dialect, tmp_path / f"r.{ending}") == record


@pytest.mark.parametrize(("dialect", "name"), CASES)
def test_a_format_is_recognised_by_its_keys(dialect: str, name: str) -> None:
    assert detect_format(FORMATS[dialect].write(RECORDS[name])).name == dialect


@pytest.mark.parametrize("dialect", CODE)
def test_what_a_format_cannot_hold_is_refused_by_name(dialect: str, tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="'set/1 ü'"):
        write_records(tmp_path / "r.jsonl", [RECORDS["math"]], dialect=dialect)
    assert not list(tmp_path.iterdir()), "a half-written file was left"


def read_one(row: dict[str, Any], tmp_path: Path, dialect: str | None = None) -> Record:
    path = tmp_path / "row.jsonl"
    path.write_text(json.dumps(row) + "\n")
    (record,) = RecordFile(path, dialect=dialect)
    return record


@pytest.mark.parametrize(
    "chat",
    [
        [{"role": "user", "content": "Why?"}],
        [{"from": "human", "value": "Why?"}],
        '[{"role": "user", "content": "Why?"}]',
        '[{"from": "human", "value": "Why?"}]',
        "Why?",
    ],
)
@pytest.mark.parametrize(
    ("truth", "wanted"),
    [
        ("42", MathTruth(answer="42")),
        (42, MathTruth(answer="42")),
        (0.5, MathTruth(answer="0.5")),
        (10**30, MathTruth(answer=str(10**30))),
        (
            '{"inputs": ["1"], "outputs": ["2"], "fn_name": "f"}',
            ProgramTruth(tests=({"input": "1", "output": "2"},), fn_name="f"),
        ),
        ([{"input": "1", "output": "2"}], ProgramTruth(tests=({"input": "1", "output": "2"},))),
        ({"type": "integer", "answer": 7}, IntegerTruth(answer="7")),
        ({"answer": 7}, OpaqueTruth(value={"answer": 7})),
    ],
)
def test_the_shapes_of_the_training_corpus_are_read(
    chat: Any, truth: Any, wanted: Any, tmp_path: Path
) -> None:
    responses = [
        "one",
        {"role": "assistant", "content": "two", "reasoning_content": "so"},
        {"value": "three"},
    ]
    row = {"conversation": chat, "responses": responses, "ground_truth": truth}
    record = read_one(row, tmp_path)
    assert record.messages == ({"role": "user", "content": "Why?"},)
    assert record.truth == wanted
    assert [response.content for response in record.pool] == ["one", "two", "three"]
    assert record.pool[1].reasoning == "so"


def test_foreign_verl_rows_keep_what_is_unknown_here(tmp_path: Path) -> None:
    row = {
        "data_source": "openai/gsm8k",
        "prompt": [{"role": "user", "content": "2+2?"}],
        "ability": "arithmetic",
        "reward_model": {"style": "model", "ground_truth": "4"},
        "extra_info": {"split": "train", "index": 3},
    }
    record = read_one(row, tmp_path)
    assert (record.truth, record.source) == (MathTruth(answer="4"), "openai/gsm8k")
    assert record.extra["extra_info"] == {"split": "train", "index": 3}
    for ending in ("jsonl", "parquet"):
        assert again(record, "verl", tmp_path / f"again.{ending}") == record
    written = FORMATS["verl"].write(record)
    assert {**written, "extra_info": {"split": "train", "index": 3}} == row


def packed(value: Any) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def a_livecodebench_row(private: str) -> dict[str, Any]:
    return {
        "question_title": "Add",
        "question_content": "Add two numbers.",
        "platform": "leetcode",
        "question_id": "2727",
        "starter_code": "class Solution:\n    def add(self, a, b):\n        ",
        "difficulty": "easy",
        "public_test_cases": json.dumps([{"input": "1\n2", "output": "3", "testtype": "functional"}]),
        "private_test_cases": private,
        "metadata": '{"func_name": "add"}',
    }


def test_private_tests_are_unpacked(tmp_path: Path) -> None:
    private = packed(json.dumps([{"input": "2\n2", "output": "4", "testtype": "functional"}]))
    record = read_one(a_livecodebench_row(private), tmp_path)
    assert isinstance(record.truth, ProgramTruth)
    assert record.truth.fn_name == "add"
    assert [test["output"] for test in record.truth.tests] == ["3", "4"]
    assert "def add(self, a, b)" in record.question
    assert record.extra["question_title"] == "Add"


class Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("owned"),))


def test_private_tests_that_would_run_code_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=r"row\.jsonl:1"):
        read_one(a_livecodebench_row(packed(Hostile())), tmp_path)
    assert not Path("owned").exists()


def test_tests_in_the_three_shapes_of_deepcoder_are_read(tmp_path: Path) -> None:
    wanted = ProgramTruth(tests=({"input": "1", "output": "2"},))
    lists = json.dumps({"inputs": ["1"], "outputs": ["2"]})
    typed = json.dumps([{"input": "1", "output": "2", "type": "stdin_stdout"}])
    for tests in (lists, typed):
        assert read_one({"problem": "p", "tests": tests, "solutions": ["x"]}, tmp_path).truth == wanted
    called = json.dumps(
        [{"input": "[1]", "output": "2", "testtype": "functional", "metadata": {"func_name": "f"}}]
    )
    found = read_one({"problem": "p", "tests": called}, tmp_path).truth
    assert found == ProgramTruth(tests=({"input": "[1]", "output": "2"},), fn_name="f")


BAD = {
    "cut": b'{"id": "b", "question": "Wh',
    "no row": b"[1, 2]",
    "no problem": b'{"id": "b", "ground_truth": 1}',
    "bad truth": b'{"id": "b", "question": "q", "ground_truth": {"type": "math"}}',
    "bad chat": b'{"id": "b", "messages": [{"role": "king", "content": "q"}]}',
    "bad bytes": b'{"id": "b", "question": "\xff"}',
    "deep": b'{"id": "b", "question": "q", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_told_with_its_number_and_skipped_or_fatal(name: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    good = b'{"id": "a", "question": "q", "ground_truth": 1}'
    path.write_bytes(good + b"\n\n" + BAD[name] + b"\n" + good.replace(b'"a"', b'"c"'))
    with pytest.raises(ProblemError, match=r"rows\.jsonl:3"):
        list(RecordFile(path))
    told: list[str] = []
    records = RecordFile(path, on_bad="skip", report=told.append)
    assert [record.id for record in records] == ["a", "c"]
    assert records.skipped == 1
    assert "rows.jsonl:3" in told[0]


def test_json_arrays_are_read_bare_or_under_a_key(tmp_path: Path) -> None:
    rows = [{"id": str(n), "question": "q", "ground_truth": n} for n in range(3)]
    for name, content in (("bare.json", rows), ("keyed.json", {"version": 1, "data": rows})):
        (tmp_path / name).write_text(json.dumps(content))
        assert [record.id for record in RecordFile(tmp_path / name)] == ["0", "1", "2"]


def test_what_python_writes_as_json_is_read_though_it_is_none(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    digits = "9" * 4000
    path.write_text(
        f'{{"id": "a", "question": "q", "ground_truth": {digits}, "score": NaN, "note": "\\ud800"}}\n',
        encoding="utf-8",
    )
    (record,) = RecordFile(path)
    assert record.truth == MathTruth(answer=digits)
    write_records(tmp_path / "again.jsonl", [record])
    (again,) = RecordFile(tmp_path / "again.jsonl")
    assert (again.truth, again.extra["note"]) == (record.truth, "\ud800")


def test_large_integers_in_arrays_are_exact(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"question": "q", "ground_truth": 10**30, "weight": 0.5}]))
    (record,) = RecordFile(path)
    assert (record.truth, record.extra) == (MathTruth(answer=str(10**30)), {"weight": 0.5})


def test_csv_is_read_by_the_names_in_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('\ufeffid,question,ground_truth\na,"one\nor ""two""?",1\nb,short\n', encoding="utf-8")
    records = RecordFile(path, on_bad="skip")
    assert [record.question for record in records] == ['one\nor "two"?']
    assert records.skipped == 1


def test_a_broken_array_says_where_it_breaks(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text('[{"id": "a", "question": "q"}, {"id": ')
    with pytest.raises(ProblemError, match=r"rows\.json: not JSON from here on"):
        list(RecordFile(path, on_bad="skip"))


def test_missing_files_and_unknown_kinds_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        list(RecordFile("nothing.jsonl"))
    (tmp_path / "rows.txt").write_text("a,b\n")
    with pytest.raises(ConfigError, match=r"should end in \.jsonl"):
        list(RecordFile(tmp_path / "rows.txt"))
    with pytest.raises(ConfigError, match=r"format 'verll'.*verl"):
        RecordFile("x.jsonl", dialect="verll")
    (tmp_path / "rows.parquet").write_text("nothing of the kind")
    with pytest.raises(ProblemError, match="no parquet file"):
        list(RecordFile(tmp_path / "rows.parquet"))


def test_an_interrupted_writer_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write_records(path, [RECORDS["math"]])
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt), RecordWriter(path) as writer:
        writer.write(RECORDS["tests"])
        raise KeyboardInterrupt
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_truth_of_a_boolean_or_a_list_is_opaque() -> None:
    for value in (True, None, ["a"], {"a": 1}):
        assert read_truth(value) == OpaqueTruth(value=value)
