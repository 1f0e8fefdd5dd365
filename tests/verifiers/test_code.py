"""Programs against tests: the share passed, how outputs compare, jury faults, tricks that gain nothing."""

from __future__ import annotations

import base64
import json
import pickle
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pacore.errors import ProblemError
from pacore.types import Problem
from pacore.verifiers.code.extract import extract_code
from pacore.verifiers.code.livecodebench import decode_private_tests, livecodebench_truth, same_output
from pacore.verifiers.code.truth import read_code_truth
from pacore.verifiers.code.verifier import CodeVerifier
from pacore.verifiers.sandbox.choose import find_sandbox

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "cases" / "livecodebench_cases.jsonl")
    .read_text()
    .splitlines()
]
ADD = {"inputs": ["1 2\n", "3 4\n", "5 6\n", "7 8\n"], "outputs": ["3\n", "7\n", "11\n", "15\n"]}
CALLS = {"inputs": ["1\n2", "3\n4"], "outputs": ["3", "7"], "fn_name": "add"}
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler here")


@pytest.fixture(scope="module")
def verifier() -> Iterator[CodeVerifier]:
    with CodeVerifier(find_sandbox()) as made:
        yield made


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_livecodebench_cases(verifier: CodeVerifier, case: dict[str, Any]) -> None:
    tests = {key: case[key] for key in ("inputs", "outputs", "fn_name")} | {"limits": {"time_s": 1}}
    verdict = verifier.verdict(tests, case["code"])
    # A trick must not pass here, and what only its own grader refuses must.
    expected = case["lcb_pass"] if case["kind"] == "semantics" else "limitation" in case["kind"]
    assert (verdict.verdict == "correct") == expected, verdict


def test_the_reward_is_the_share_of_all_tests_passed(verifier: CodeVerifier) -> None:
    verdict = verifier.verdict(ADD, "a, b = map(int, input().split())\nprint(a + b if a != 3 else 0)")
    assert (verdict.verdict, verdict.reward) == ("incorrect", 0.75)
    assert verdict.reason == "failed: 3 of 4 tests"
    assert verdict.evidence["failures"] == [
        {
            "test": 1,
            "why": "wrong answer: line 1 differs: expected '7', found '0'",
            "input": "3 4\n",
            "expected": "7\n",
            "output": "0\n",
        }
    ]
    assert verdict.evidence["sandbox"].endswith("(full)")


async def test_the_last_program_of_an_answer_is_the_one_judged(verifier: CodeVerifier) -> None:
    problem = Problem(id="p", messages=({"role": "user", "content": "add"},), ground_truth=ADD)
    answer = "```python\nprint(1)\n```\nBetter:\n```python\nprint(sum(map(int, input().split())))\n```\nDone."
    assert (await verifier.verify(problem, answer)).verdict == "correct"
    assert (await verifier.verify(problem, "no program")).reason.startswith("no_code")


TRICKS = {
    "always equal": """
class E:
    def __eq__(self, o): return True
    def __hash__(self): return 0
def add(a, b): return E()
""",
    "an int that is every int": """
class E(int):
    __eq__ = lambda s, o: True
    __hash__ = int.__hash__
def add(a, b): return E()
""",
    "forged result lines": """
import os
for fd in range(3, 64):
    try: os.write(fd, b'{"int": "0x3"}')
    except OSError: pass
def add(a, b): return 9
""",
    "patched json": """
import json
json.dumps = lambda *a, **k: 'true'
def add(a, b): return 9
""",
    "exits at once": "import os\nos._exit(0)",
    "answers from an exit handler": """
import atexit, os
atexit.register(lambda: os.write(1, b'3'))
def add(a, b): return 9
""",
    "looks for the expected value": """
import gc
def add(a, b):
    held = [o for o in gc.get_objects() if isinstance(o, dict) and 'output' in o]
    return held[0]['output'] if held else 9
""",
    "a value that is no data": "def add(a, b): return lambda: 3",
    "a list that contains itself": """
def add(a, b):
    x = []
    x.append(x)
    return x
""",
    "a call counter": """
import os
def add(a, b):
    open('n', 'a').write('x')
    return {1: 9, 2: 7}[os.path.getsize('n')]
""",
}


@pytest.mark.parametrize("name", TRICKS)
def test_no_trick_scores(verifier: CodeVerifier, name: str) -> None:
    verdict = verifier.verdict(CALLS, TRICKS[name])
    assert (verdict.verdict, verdict.reward) == ("incorrect", 0.0), verdict


ONE = {"inputs": ["1 2"], "outputs": ["3"]}
CALL = {"inputs": ["1"], "outputs": ["1"], "fn_name": "f"}
ODD_BUT_RIGHT = {
    "closes its output": "import sys\nprint(3); sys.stdout.close()",
    "leaves a pool of threads": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "print(ThreadPoolExecutor(2).submit(lambda: 3).result())"
    ),
    "a thread started by a thread": (
        "import threading, time\n"
        "def last(): time.sleep(0.05); print(3)\n"
        "threading.Thread(target=lambda: threading.Thread(target=last).start()).start()"
    ),
    "raises its own stack limit": (
        "import resource\nresource.setrlimit(resource.RLIMIT_STACK, (2**29, -1)); print(3)"
    ),
    "a file never closed": "out = open(1, 'w'); out.write('3')",
    "another output put in place": "import sys, os\nprint(3); sys.stdout = open(os.devnull, 'w')",
    "prints as it is torn down": "class Last:\n    def __del__(self): print(3)\nkept = Last()",
    "a byte order mark": "\ufeffprint(3)",
    "memory shared by forks": (
        "import os, time\nheld = bytearray(b'x' * (300 << 20))\n"
        "for _ in range(4):\n  if os.fork() == 0: time.sleep(0.2); os._exit(0)\n"
        "for _ in range(4): os.wait()\nprint(3)"
    ),
}
FORGED = {
    "an integer too long to print": "def f(x): return 10 ** 5000",
    "a float that overflows": ('import os\ndef f(x): os.write(3, b\'{"float": "0x1p99999"}\'); os._exit(0)'),
    "keys that collide": (
        "import os, json\ndef f(x):\n"
        "  pairs = [[{'int': hex(k * (2**61 - 1))}, 1] for k in range(1, 60_000)]\n"
        "  text = json.dumps({'dict': pairs}).encode()\n"
        "  while text: text = text[os.write(3, text):]\n  os._exit(0)"
    ),
}


@pytest.mark.parametrize("name", ODD_BUT_RIGHT)
def test_an_odd_but_right_program_passes(verifier: CodeVerifier, name: str) -> None:
    assert verifier.verdict(ONE, ODD_BUT_RIGHT[name]).verdict == "correct"


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_value_is_wrong_and_costs_no_time(verifier: CodeVerifier, name: str) -> None:
    verdict = verifier.verdict(CALL, FORGED[name])
    assert verdict.verdict == "incorrect"
    assert verdict.ms < 10_000


def test_a_programs_own_guard_does_not_run_where_a_function_is_called(verifier: CodeVerifier) -> None:
    source = "def f(x): return x\nif __name__ == '__main__':\n    print(f(int(input())))"
    assert verifier.verdict(CALL, source).verdict == "correct"


def test_a_function_of_the_prelude_is_not_the_programs(verifier: CodeVerifier) -> None:
    tests = {"inputs": ["4\n6"], "outputs": ["2"], "fn_name": "gcd"}
    assert verifier.verdict(tests, "pass").verdict == "incorrect"
    assert verifier.verdict(tests, "from math import gcd").verdict == "correct"


def test_time_of_all_processes_counts(verifier: CodeVerifier) -> None:
    source = (
        # Grandchildren whose parents are gone: nobody here waits for them, so no usage of children has them.
        "import os, time\nr, w = os.pipe()\nfor _ in range(2):\n"
        "  if os.fork() == 0:\n    if os.fork() == 0:\n"
        "      while time.process_time() < 0.8: pass\n      os.write(w, b'x')\n    os._exit(0)\n"
        "for _ in range(2): os.wait()\nfor _ in range(2): os.read(r, 1)\nprint(3)"
    )
    verdict = verifier.verdict({**ONE, "limits": {"time_s": 1}}, source)
    assert "time limit" in verdict.evidence["failures"][0]["why"]


def test_an_expected_output_beyond_the_limit_makes_room(verifier: CodeVerifier) -> None:
    tests = {"inputs": [""], "outputs": ["1" * 20_000_000]}
    source = "import sys\nsys.stderr.write('e' * 17_000_000)\nprint('1' * 20_000_000)"
    assert verifier.verdict(tests, source).verdict == "correct"


def test_a_judge_that_fails_on_one_output_alone_leaves_it_open(verifier: CodeVerifier) -> None:
    judge = (
        "import sys\nsaid, answer = (open(name).read().split() for name in sys.argv[2:4])\n"
        "sys.exit(3 if 'x' in said else said != answer)"
    )
    tests = {"inputs": ["1", "2"], "outputs": ["1", "2"], "checker": {"language": "python", "source": judge}}
    assert verifier.verdict(tests, "print(input())").verdict == "correct"
    verdict = verifier.verdict(tests, "print('1' if input() == '1' else 'x')")
    assert (verdict.verdict, verdict.reward) == ("unverifiable", 0.0)
    assert "fails on test 1" in verdict.reason


@needs_compiler
@pytest.mark.parametrize(
    "source",
    [
        '#include <cstdio>\nint z[5000000] = {1};\nint main() { puts("3"); }',
        "#include <algorithm>\n#include <vector>\n#include <cstdio>\n"
        'int main() { std::vector<int> v{3, 1}; std::ranges::sort(v); printf("%d", v[1]); }',
    ],
    ids=["a large binary", "C++20"],
)
def test_cpp_of_every_size_and_age(verifier: CodeVerifier, source: str) -> None:
    assert verifier.verdict(ONE, source, language="cpp").verdict == "correct"


def test_jury_faults_are_dropped_and_reported(verifier: CodeVerifier) -> None:
    tests = {**ADD, "outputs": ["3\n", "seven\n", "11\n", "15\n"], "checker": "icmp"}
    verdict = verifier.verdict(tests, "print(sum(map(int, input().split())))")
    assert (verdict.verdict, verdict.reward) == ("correct", 1.0)
    assert verdict.evidence["tests"] == 3
    assert verdict.evidence["dropped"]["count"] == 1
    assert list(verdict.evidence["dropped"]["first"]) == ["1"]


def test_with_no_valid_test_nothing_is_verified(verifier: CodeVerifier) -> None:
    assert (
        verifier.verdict({**CALLS, "outputs": ["three", "seven"]}, "add = int.__add__").verdict
        == "unverifiable"
    )


@pytest.mark.parametrize(
    ("tests", "words"),
    [
        ({}, "inputs and outputs"),
        ({"inputs": ["1"], "outputs": []}, "of the same length"),
        ([], "there is none"),
        ("{", "not JSON"),
        (7, "a mapping or a list"),
        ({**ADD, "checker": "ncmq"}, "ncmp"),
        ({**ADD, "checker": {"language": "cobol", "source": "x"}}, "'cobol' are not run"),
        ({**ADD, "limits": {"time_s": -1}}, "limits of -1 s"),
        ({**ADD, "limits": "x"}, "time_s and memory_mb"),
        ({**ADD, "limits": {"memory_mb": 10**30}}, "at most"),
        ({**ADD, "fn_name": 5}, "a function's name"),
        ({"harness": 5}, "are texts"),
        ({**ADD, "checker": {"source": "x", "files": {"a/b": "x"}}}, "plain names"),
    ],
)
def test_bad_tests_are_unverifiable_and_told(verifier: CodeVerifier, tests: Any, words: str) -> None:
    verdict = verifier.verdict(tests, "print(1)")
    assert verdict.verdict == "unverifiable"
    assert words in verdict.reason


def test_a_real_judges_exit_code_counts_and_livecodebenchs_does_not(verifier: CodeVerifier) -> None:
    source = "import sys\nprint(sum(map(int, input().split())))\nsys.exit(1)"
    assert verifier.verdict(ADD, source).verdict == "correct"
    assert verifier.verdict({**ADD, "checker": "ncmp"}, source).reward == 0


def test_giving_up_after_time_outs_counts_the_rest_as_failed() -> None:
    tests = {**ADD, "limits": {"time_s": 0.3}}
    with CodeVerifier(find_sandbox(), most_timeouts=1) as verifier:
        verdict = verifier.verdict(
            tests, "n = input()\nif n[0] == '3':\n    while True: pass\nprint(sum(map(int, n.split())))"
        )
    assert verdict.reward == 0.25
    assert verdict.ms < 3000


PYTHON_JUDGE = """
import sys
given, output, answer = (open(path).read().split() for path in sys.argv[1:])
if given == ["7", "8"]:
    sys.exit(3)
if not output:
    raise RuntimeError("nothing to read")
sys.exit(0 if int(output[0]) % 10 == int(answer[0]) % 10 else 1)
"""
CPP_JUDGE = """
#include <fstream>
#include "close.h"
int main(int argc, char** argv) {
    long long out, ans;
    std::ifstream o(argv[2]), a(argv[3]);
    a >> ans;
    if (!(o >> out)) return 2;
    return close(out, ans) ? 0 : 1;
}
"""


def test_a_special_judge_in_python(verifier: CodeVerifier) -> None:
    tests = {**ADD, "checker": {"language": "python", "source": PYTHON_JUDGE}}
    right = verifier.verdict(tests, "print(sum(map(int, input().split())) + 10)")
    assert (right.verdict, right.evidence["tests"]) == ("correct", 3)
    # A judge that fails on this output alone says nothing against its test.
    assert verifier.verdict(tests, "pass").reward == 0


@needs_compiler
def test_a_special_judge_in_cpp_with_a_header_is_compiled_once(tmp_path: Path) -> None:
    (tmp_path / "close.h").write_text(
        "inline bool close(long long x, long long y) { return x - y < 2 && y - x < 2; }"
    )
    tests = {**ADD, "checker": {"kind": "testlib", "language": "c++17", "source": CPP_JUDGE}}
    with CodeVerifier(find_sandbox(), headers=tmp_path) as verifier:
        assert verifier.verdict(tests, "print(sum(map(int, input().split())) + 1)").verdict == "correct"
        again = verifier.verdict(tests, "print(sum(map(int, input().split())) + 2)")
        broken = verifier.verdict({**tests, "checker": {"language": "cpp", "source": "int"}}, "print(1)")
    assert again.reward == 0
    assert again.ms < 1000
    assert broken.reason.startswith("jury: the special judge does not compile")


@needs_compiler
def test_a_cpp_program(verifier: CodeVerifier) -> None:
    source = '#include <cstdio>\nint main() { long a, b; scanf("%ld %ld", &a, &b); printf("%ld\\n", a + b); }'
    assert verifier.verdict(ADD, source, language="cpp").verdict == "correct"
    assert verifier.verdict(ADD, "int main(", language="cpp").reason.startswith("does_not_compile")
    assert verifier.verdict(CALLS, source, language="cpp").reason.startswith("unsupported")


def test_assertions_are_run_beside_the_program(verifier: CodeVerifier) -> None:
    tests = {
        "harness": "def check(f):\n    assert f(2) == 4\n",
        "entry_point": "double",
        "prelude": "import math\n",
    }
    assert verifier.verdict(tests, "def double(x): return math.floor(2 * x)").verdict == "correct"
    failed = verifier.verdict(tests, "def double(x): return x")
    assert (failed.reward, failed.evidence["failures"][0]["why"]) == (0.0, "failed: AssertionError")
    assert verifier.verdict(tests, "import sys\nsys.exit(0)").reward == 0


@pytest.mark.parametrize(
    ("text", "source", "language"),
    [
        ("```\nprint(1)\n```", "print(1)\n", "python"),
        ("```python3 title=x\na\n```\n```text\nnot this\n```", "a\n", "python"),
        ("<think>```python\nno\n```</think>\n```c++\nint main() {}\n```", "int main() {}\n", "cpp"),
        ("1. First:\n   ```py\n   x = 1\n   ```", "   x = 1\n   ", "python"),
        ("````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''\n", "python"),
    ],
)
def test_programs_are_found(text: str, source: str, language: str) -> None:
    found = extract_code(text)
    assert found is not None
    assert (found.source.rstrip(), found.language) == (source.rstrip(), language)


@pytest.mark.parametrize(
    "text", ["", "print(1)", "```python\nprint(1)", "<think>\n```python\nx\n```", "```\n\n```"]
)
def test_what_is_no_finished_program_is_none(text: str) -> None:
    assert extract_code(text) is None


def test_private_tests_are_read_and_nothing_but_plain_data_is() -> None:
    tests = [{"input": "1 2", "output": "3", "testtype": "stdin"}]
    packed = base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()
    assert decode_private_tests(packed) == tests
    assert decode_private_tests(json.dumps(tests)) == tests
    record = {
        "public_test_cases": json.dumps(tests),
        "private_test_cases": packed,
        "metadata": json.dumps({"func_name": "add"}),
    }
    assert read_code_truth(livecodebench_truth(record)).function == "add"

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (print, ("ran",))

    evil = base64.b64encode(zlib.compress(pickle.dumps(Evil()))).decode()
    for text, words in (
        (evil, "only plain data is read"),
        ("AAAA", "neither JSON"),
        ("7", "a list is wanted"),
    ):
        with pytest.raises(ProblemError, match=words):
            decode_private_tests(text)


@pytest.mark.parametrize(
    ("output", "expected", "same"),
    [
        ("3.0\n", "3", True),
        (" a \n b\n\n", "a\nb", True),
        ("a\n\nb", "a\nb", False),
        ("1e400000000", "1e400000000", True),
        ("nan", "NaN", False),
        ("1 2", "1  2.0", True),
    ],
)
def test_outputs_compare_as_livecodebench_compares_them(output: str, expected: str, same: bool) -> None:
    assert (same_output(output, expected) == "") == same
