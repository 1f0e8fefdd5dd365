"""``python -m benchmarks``: runs every workload beside what it is compared with, and prints the table.

Options: ``--runs N`` (default 3; medians are printed with their range), ``--only NAME``, ``--small`` for a
quick look whose figures mean nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.workloads import WORKLOADS
from pacore.version import __version__

ONCE = {"memory", "killed"}
Runs = list[dict[str, float]]


@contextlib.contextmanager
def mock_endpoint() -> Iterator[str]:
    """The mock endpoint in a process of its own; yields its base URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.mock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


def run_all(names: list[str], runs: int, *, small: bool) -> dict[str, Runs]:
    """Every workload ``runs`` times, in turn, so that a busy minute hits all alike."""
    figures: dict[str, Runs] = {name: [] for name in names}
    with mock_endpoint() as url:
        for number in range(runs):
            for name in names:
                if number and name in ONCE:
                    continue
                size = max(2, WORKLOADS[name][0] // 50) if small else 0
                command = [sys.executable, "-m", "benchmarks.workloads", name, url, str(size), str(number)]
                outcome = subprocess.run(command, capture_output=True, text=True, check=False)
                if outcome.returncode:
                    sys.exit(f"workload {name} failed:\n{outcome.stderr}")
                figures[name].append(json.loads(outcome.stdout))
                print(f"run {number + 1}: {name} {outcome.stdout.strip()}", file=sys.stderr)
    return figures


def spread(runs: Runs, key: str, form: str = ".0f") -> str:
    """The median of a figure, with its range where there are several runs."""
    values = [run[key] for run in runs]
    middle = f"{statistics.median(values):{form}}"
    return middle if len(values) == 1 else f"{middle} ({min(values):{form}} to {max(values):{form}})"


def ratio(one: Runs, other: Runs, key: str) -> str:
    """The ratio of a figure between two workloads, run by run."""
    return spread([{key: a[key] / b[key]} for a, b in zip(one, other, strict=True)], key, ".2f")


def rows(figures: dict[str, Runs]) -> Iterator[tuple[str, str, str]]:
    """The table: what, measured, beside what."""
    call = "cpu_us_per_call"
    bare = figures.get("bare_client")
    if bare:
        yield "HTTP library alone: CPU per small call", f"{spread(bare, call)} µs", "the floor"
    for name, what in (
        ("sampler_calls", "CPU per small call, 64 in flight: sampler"),
        ("run_calls", "CPU per small call, 64 in flight: whole run with journal"),
        ("openai_sdk", "CPU per small call, 64 in flight: openai SDK alone"),
    ):
        if name in figures:
            beside = f"{ratio(figures[name], bare, call)} × the floor" if bare else ""
            yield what, f"{spread(figures[name], call)} µs", beside
    for name, what in (
        ("stream_100k", "CPU to stream 100 KB in 500 events, whole run with journal"),
        ("whole_100k", "CPU to read 100 KB in one body, whole run with journal"),
    ):
        if name in figures:
            yield what, f"{spread(figures[name], 'cpu_ms_per_mb', '.1f')} ms/MB", ""
    for run in figures.get("memory", []):
        flat = f"{run['after_a_tenth_mb']:.0f} MB in the first tenth, {run['last_tenth_mb']:.0f} in the last"
        yield f"peak memory, {run['journal_mb'] / 1e3:.1f} GB of journal", f"{run['peak_mb']:.0f} MiB", flat
    if "heavy_tails" in figures and "heavy_tails_first_come" in figures:
        ours, others = figures["heavy_tails"], figures["heavy_tails_first_come"]
        for key, what in (("makespan_s", "makespan"), ("mean_latency_s", "mean time to a problem's answer")):
            beside = f"{ratio(ours, others, key)} × first-come order ({spread(others, key, '.1f')} s)"
            yield f"heavy-tailed latencies: {what}", f"{spread(ours, key, '.1f')} s", beside
    for run in figures.get("killed", []):
        saved = f"{run['saved']:.0f} saved, {run['in_flight']:.0f} in flight at the kill"
        yield "kill -9 half-way: finished calls lost", f"{run['lost']:.0f}", saved
    if "faults" in figures:
        answered = f"{spread(figures['faults'], 'answered_percent', '.1f')} % answered"
        yield "20 % transient faults", answered, f"{spread(figures['faults'], 'silently_lost')} lost silently"
    yield from sandbox_rows(figures)


def sandbox_rows(figures: dict[str, Runs]) -> Iterator[tuple[str, str, str]]:
    """Programs in the sandbox, beside plain processes."""
    rate, plain = "tests_per_s", figures.get("plain_processes")
    if plain:
        yield "a plain Python process a test, two cores", f"{spread(plain, rate)} tests/s", "the floor"
    for name, what in (
        ("programs_of_40_tests", "sandboxed programs of 40 tests, two cores"),
        ("programs_of_1_test", "sandboxed programs of one test, two cores"),
    ):
        if name in figures:
            beside = f"{ratio(figures[name], plain, rate)} × plain processes" if plain else ""
            yield what, f"{spread(figures[name], rate)} tests/s", beside


def machine() -> str:
    """The machine in a line."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor() or platform.machine(),
    )
    return f"{model}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", action="append", choices=sorted(WORKLOADS))
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    names = options.only or [
        name for name in WORKLOADS if name != "openai_sdk" or importlib.util.find_spec("openai")
    ]
    figures = run_all(names, options.runs, small=options.small)
    print(f"pacore {__version__}; {machine()}; median of {options.runs} runs (range)\n")
    print("| what | measured | beside it |\n|---|---|---|")
    for what, measured, beside in rows(figures):
        print(f"| {what} | {measured} | {beside} |")


if __name__ == "__main__":
    main()
