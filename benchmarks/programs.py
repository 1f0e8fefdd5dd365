"""Workloads of the verifiers: programs in the sandbox, beside the same programs with nothing around them."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from pacore.verifiers.code.verifier import CodeVerifier
from pacore.verifiers.sandbox.choose import find_sandbox

PROGRAM = "a, b = map(int, input().split())\nprint(a + b)\n"
CORES = 2


def sandboxed(tests: int, programs: int) -> dict[str, float]:
    """Tests a second on two cores, with so many tests a program, a sandbox a program."""
    truth = {"inputs": [f"{n} {n}\n" for n in range(tests)], "outputs": [f"{2 * n}\n" for n in range(tests)]}
    with CodeVerifier(find_sandbox(), workers=CORES) as verifier, ThreadPoolExecutor(CORES) as threads:
        begun = time.perf_counter()
        verdicts = list(threads.map(lambda _: verifier.verdict(truth, PROGRAM), range(programs)))
        seconds = time.perf_counter() - begun
    assert all(verdict.verdict == "correct" for verdict in verdicts)
    return {"tests_per_s": tests * programs / seconds}


def uncontained(tests: int) -> dict[str, float]:
    """The same with a plain Python process a test: the floor of one process a test."""

    def run(number: int) -> bytes:
        command = ["/usr/bin/python3", "-I", "-S", "-c", PROGRAM]
        return subprocess.run(
            command, input=b"%d %d\n" % (number, number), capture_output=True, check=True
        ).stdout

    with ThreadPoolExecutor(CORES) as threads:
        begun = time.perf_counter()
        outputs = list(threads.map(run, range(tests)))
        seconds = time.perf_counter() - begun
    assert outputs == [b"%d\n" % (2 * number) for number in range(tests)]
    return {"tests_per_s": tests / seconds}
