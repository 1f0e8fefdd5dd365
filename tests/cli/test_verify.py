"""``pacore verify``: verdicts in input order, a summary against what was expected."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from support.command import pacore

DATA = Path(__file__).parent.parent / "cases"


async def test_lines_of_every_kind_get_a_verdict_in_their_order(tmp_path: Path) -> None:
    lines = [
        {"id": "a", "gold": "1/2", "prediction": "\\boxed{0.5}", "expected": True},
        {"id": "b", "checker": "ncmp", "input": "", "output": "1 2", "answer": "1 3", "expected": False},
        {"id": "c", "problem": {"question": "?", "ground_truth": "7"}, "prediction": "the answer is 7"},
        {"id": "d", "checker": "yesno", "input": "", "output": "maybe", "answer": "maybe"},
        {"id": "e", "gold": "(x+1)^2", "prediction": "\\boxed{x^2+2x+1}", "expected": True},
        {"id": "f", "nothing": 1},
        {"id": "g", "checker": "nonsense", "output": "", "answer": ""},
        {"id": "h", "gold": "1", "prediction": "\\boxed{2}", "expected": True},
    ]
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n{broken\n\n")
    outcome = await pacore("verify", str(path))
    assert outcome.status == 0
    found = [json.loads(line) for line in outcome.out.splitlines()]
    assert [(line["id"], line["verdict"]) for line in found] == [
        ("a", "correct"),
        ("b", "incorrect"),
        ("c", "correct"),
        ("d", "unverifiable"),
        ("e", "correct"),
        ("f", "unverifiable"),
        ("g", "unverifiable"),
        ("h", "incorrect"),
        (None, "unverifiable"),
    ]
    assert [line["reward"] for line in found[:2]] == [1.0, 0.0]
    assert "9 lines: 3 correct, 2 incorrect, 4 unverifiable" in outcome.err
    assert "as expected: 3 of 4 (75.0%), 0 accepted wrongly, 1 not accepted" in outcome.err


async def test_programs_run_in_a_sandbox_that_the_summary_names(tmp_path: Path) -> None:
    tests = {"inputs": ["1\n2"], "outputs": ["3"], "fn_name": "add"}
    truth = {"tests": [{"input": "2", "output": "4"}, {"input": "3", "output": "6"}], "checker": "icmp"}
    judge = {"language": "python", "source": "import sys\nsys.exit(open(sys.argv[2]).read() != 'fine')"}
    lines: list[dict[str, object]] = [
        {"id": 1, **tests, "code": "def add(a, b): return a + b", "expected": True},
        {"id": 2, "gold": "4", "prediction": "\\boxed{4}", "expected": True},
        {
            "id": 3,
            "problem": {"ground_truth": truth},
            "prediction": "```python\nprint(int(input()) ** 2)\n```",
        },
        {"id": 4, "checker": judge, "input": "", "output": "fine", "answer": ""},
        {"id": 5, **tests, "code": "x", "language": "cobol"},
        {"id": 6, "inputs": [], "outputs": [], "fn_name": None, "code": "x"},
        {"id": 7, "problem": {"ground_truth": {"type": "rubric"}}, "prediction": "fine"},
    ]
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    outcome = await pacore("verify", str(path), "--processes", "2")
    found = [json.loads(line) for line in outcome.out.splitlines()]
    assert [(line["id"], line["verdict"], line["reward"]) for line in found] == [
        (1, "correct", 1.0),
        (2, "correct", 1.0),
        (3, "incorrect", 0.5),
        (4, "correct", 1.0),
        (5, "unverifiable", 0.0),
        (6, "unverifiable", 0.0),
        (7, "unverifiable", 0.0),
    ]
    assert "3 programs run in bubblewrap" in outcome.err


@pytest.mark.slow
async def test_a_long_file_keeps_its_order(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    with path.open("w") as file:
        for number in range(20_000):
            case = {"id": number, "gold": str(number), "prediction": f"\\boxed{{{number}}}"}
            file.write(json.dumps(case) + "\n")
    outcome = await pacore("verify", str(path))
    lines = [json.loads(line) for line in outcome.out.splitlines()]
    assert [line["id"] for line in lines] == list(range(20_000))
    assert {line["verdict"] for line in lines} == {"correct"}


async def test_a_missing_file_is_told(tmp_path: Path) -> None:
    outcome = await pacore("verify", str(tmp_path / "none.jsonl"))
    assert outcome.status == 1
    assert "there is no file" in outcome.err


async def test_a_line_that_no_rule_foresaw_costs_no_other_line(tmp_path: Path) -> None:
    lines = [
        '{"id": 1, "gold": "1", "prediction": "\\\\boxed{1}"}',
        "[" * 100_000,
        json.dumps({"id": 3, "problem": {"ground_truth": "[" * 50_000}, "prediction": "x"}),
        json.dumps({"id": 4, "code": "print(1)", "inputs": [""], "outputs": ["1"], "language": 5}),
        json.dumps({"id": 5, "code": 5, "inputs": [""], "outputs": ["1"]}),
        json.dumps(
            {"id": 6, "code": "def f(x): return 10**5000", "inputs": ["1"], "outputs": ["1"], "fn_name": "f"}
        ),
        json.dumps({"id": 7, "gold": "2", "prediction": "\\boxed{2}"}),
    ]
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(lines))
    outcome = await pacore("verify", str(path))
    assert outcome.status == 0, outcome.err
    verdicts = [json.loads(line)["verdict"] for line in outcome.out.splitlines()]
    assert verdicts[0] == verdicts[6] == "correct"
    assert verdicts[1] == verdicts[3] == verdicts[4] == "unverifiable"
    assert verdicts[5] == "incorrect"


def is_sandbox(process: psutil.Process) -> bool:
    try:
        return "sandbox" in " ".join(process.cmdline())
    except psutil.Error:
        # It has ended since it was listed.
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_all_that_it_started(tmp_path: Path, number: int) -> None:
    path = tmp_path / "cases.jsonl"
    line = {"code": "import time\ntime.sleep(60)", "inputs": [""], "outputs": ["1"], "limits": {"time_s": 60}}
    path.write_text("".join(json.dumps({**line, "id": n}) + "\n" for n in range(6)))
    command = [sys.executable, "-m", "pacore", "verify", str(path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        own = psutil.Process(process.pid)
        while not any(map(is_sandbox, own.children(recursive=True))):
            assert process.poll() is None
        started = own.children(recursive=True)
        process.send_signal(number)
        process.wait(timeout=20)
        _, alive = psutil.wait_procs(started, timeout=20)
    assert not alive
