"""The workloads, each run in a process of its own: ``python -m benchmarks.workloads NAME URL [SIZE RUN]``.

Each prints one JSON object of figures. CPU is user plus system time of this process alone; the endpoint
runs in another.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import aiohttp
import psutil

from benchmarks.programs import sandboxed, uncontained
from pacore.batch import Batch
from pacore.config import Budget, Endpoint, Retries
from pacore.coordination.loop import coordinate
from pacore.coordination.schedules import parse_schedule
from pacore.events import Event, RunFinished, TrajectoryFinished
from pacore.problems import read_problem
from pacore.sampling.openai import EndpointSampler
from pacore.sampling.sampler import Call, Prompt
from pacore.sampling.slots import CallSlots
from pacore.session import DEFAULT, Session, open_session
from pacore.traces.run_directory import RunDirectory
from pacore.types import Problem, SamplingParams

SLOTS = 64
QUESTION = "How many positive divisors does 360 have?"
Figures = dict[str, float]


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def problems(number: int) -> Iterator[Problem]:
    return (read_problem({"id": f"p{n}", "question": QUESTION}) for n in range(number))


class Unwatched:
    """Wants to hear nothing."""

    def started(self) -> None: ...

    def text(self, content: str, reasoning: str) -> None: ...

    def retrying(self, attempt: int, reason: str, wait_s: float, generated_tokens: int) -> None: ...


@contextlib.contextmanager
def measured(calls: int) -> Iterator[Figures]:
    """CPU and wall time of the block, per call in microseconds."""
    figures: Figures = {}
    cpu, wall = cpu_seconds(), time.perf_counter()
    yield figures
    figures["cpu_us_per_call"] = (cpu_seconds() - cpu) / calls * 1e6
    figures["wall_us_per_call"] = (time.perf_counter() - wall) / calls * 1e6


async def _in_flight(number: int, slots: int, make: Any) -> None:
    rest = iter(range(number))

    async def work() -> None:
        for index in rest:
            await make(index)

    await asyncio.gather(*(work() for _ in range(slots)))


async def bare_client(url: str, calls: int) -> Figures:
    """The floor: the HTTP library alone, its answer parsed by json."""
    body = {"model": "small", "messages": [{"role": "user", "content": QUESTION}], "seed": 1}

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def make(index: int) -> None:
            async with session.post(f"{url}/chat/completions", json=body) as response:
                await response.json()

        await _in_flight(500, SLOTS, make)
        with measured(calls) as figures:
            await _in_flight(calls, SLOTS, make)
    return figures


async def openai_sdk(url: str, calls: int) -> Figures:
    """The official SDK, where it is installed."""
    from openai import AsyncOpenAI  # type: ignore[import-not-found,unused-ignore]

    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

        async def make(index: int) -> None:
            await client.chat.completions.create(
                model="small", messages=[{"role": "user", "content": QUESTION}], seed=1
            )

        await _in_flight(100, SLOTS, make)
        with measured(calls) as figures:
            await _in_flight(calls, SLOTS, make)
    return figures


async def sampler_calls(url: str, calls: int, model: str = "small", *, stream: bool = False) -> Figures:
    """Calls through the sampler and its limits, without rounds or journal."""
    endpoint = Endpoint(base_url=url, model=model, stream=stream)
    prompt = Prompt(next(problems(1)).messages)
    async with open_session(endpoint, concurrency=SLOTS) as session:
        sampler = session.samplers[DEFAULT]

        async def make(index: int) -> None:
            await sampler.sample(Call("p", 1, index, prompt, SamplingParams(), index), Unwatched())

        await _in_flight(500 if model == "small" else 20, SLOTS, make)
        with measured(calls) as figures:
            await _in_flight(calls, SLOTS, make)
    return figures


@contextlib.asynccontextmanager
async def batch_on_disk(
    endpoint: Endpoint, schedule: str, reader: Any = None
) -> AsyncIterator[tuple[Batch, Path]]:
    with tempfile.TemporaryDirectory(prefix="pacore-bench-") as folder:
        async with open_session(endpoint, concurrency=SLOTS) as session:
            with RunDirectory(Path(folder), {}) as directory:
                yield Batch(session, directory, parse_schedule(schedule), reader=reader), Path(folder)


async def run_calls(url: str, number: int, model: str = "small", *, stream: bool = False) -> Figures:
    """The whole road: [32, 4] on ``number`` problems, with the journal on disk."""
    endpoint = Endpoint(base_url=url, model=model, stream=stream)
    async with batch_on_disk(endpoint, "32,4") as (batch, _):
        await batch.run(problems(5 if model == "small" else 1))
    async with batch_on_disk(endpoint, "32,4") as (batch, _):
        with measured(number * 37) as figures:
            await batch.run(problems(number))
    # 100 KB of text a call.
    figures["cpu_ms_per_mb"] = figures["cpu_us_per_call"] / 1e3 / 0.1
    return figures


async def memory(url: str, number: int) -> Figures:
    """Memory over ``number`` problems of [32, 4] with 100 KB trajectories, sampled as each one ends."""
    process, ended, sizes = psutil.Process(), 0, list[int]()

    def reader(problem_id: str, event: Event) -> None:
        nonlocal ended
        if isinstance(event, RunFinished):
            ended += 1
            sizes.append(process.memory_info().rss)

    endpoint = Endpoint(base_url=url, model="whole-100k", stream=False)
    async with batch_on_disk(endpoint, "32,4", reader) as (batch, folder):
        begun = time.perf_counter()
        await batch.run(problems(number))
        seconds = time.perf_counter() - begun
        written = sum(path.stat().st_size for path in folder.rglob("*.jsonl"))
    tenth = max(1, len(sizes) // 10)
    return {
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "after_a_tenth_mb": max(sizes[:tenth]) / 1e6,
        "last_tenth_mb": max(sizes[-tenth:]) / 1e6,
        "journal_mb": written / 1e6,
        "seconds": seconds,
    }


class FirstComeSlots(CallSlots):
    """Slots in the order of arrival, whatever the round."""

    async def acquire(self, priority: float = 0.0) -> None:
        await super().acquire(0.0)


async def heavy_tails(url: str, number: int, *, seed: int, first_come: bool) -> Figures:
    """Heavy-tailed latencies: when each of ``number`` problems of [32, 4] is done, on 64 slots.

    The latencies follow from the seed, so both orders meet the same ones.
    """
    endpoint = Endpoint(base_url=url, model="heavy", stream=False)
    done: list[float] = []
    async with EndpointSampler(endpoint) as sampler:
        session = Session(SLOTS, Budget())
        if first_come:
            session.slots = FirstComeSlots(SLOTS)
        session.add(DEFAULT, sampler, concurrency=100_000, retries=Retries())
        begun = time.perf_counter()
        if first_come:
            await asyncio.gather(
                *(_finish(session, problem, seed, done, begun) for problem in problems(number))
            )
        else:
            await _run_batch(session, number, seed, done, begun)
    return {"makespan_s": max(done), "mean_latency_s": sum(done) / len(done)}


async def _finish(session: Session, problem: Problem, seed: int, done: list[float], begun: float) -> None:
    async for _ in coordinate(problem, parse_schedule("32,4"), session.context(seed=seed, progress=False)):
        pass
    done.append(time.perf_counter() - begun)


async def _run_batch(session: Session, number: int, seed: int, done: list[float], begun: float) -> None:
    def reader(problem_id: str, event: Event) -> None:
        if isinstance(event, RunFinished):
            done.append(time.perf_counter() - begun)

    with (
        tempfile.TemporaryDirectory(prefix="pacore-bench-") as folder,
        RunDirectory(Path(folder), {}) as directory,
    ):
        await Batch(session, directory, parse_schedule("32,4"), seed=seed, reader=reader).run(
            problems(number)
        )


async def faults(url: str, number: int) -> Figures:
    """20 % transient faults: problems answered, and references missing without a word."""
    endpoint = Endpoint(base_url=url, model="faulty", retries=Retries(base_s=0.01))
    answered, silent, references = 0, 0, dict[str, int]()

    def reader(problem_id: str, event: Event) -> None:
        nonlocal answered, silent
        if isinstance(event, TrajectoryFinished):
            references[problem_id] = len(event.trajectory.references)
        elif isinstance(event, RunFinished):
            answered += event.result.status == "complete"
            told = any(warning.code == "lost_references" for warning in event.result.warnings)
            silent += references.pop(problem_id) < 16 and not told

    async with batch_on_disk(endpoint, "16", reader) as (batch, _):
        await batch.run(problems(number))
    return {"answered_percent": 100 * answered / number, "silently_lost": silent}


def killed(url: str, number: int) -> Figures:
    """``pacore run`` killed half-way and run again: finished calls that were lost."""
    with tempfile.TemporaryDirectory(prefix="pacore-bench-") as folder:
        file = Path(folder) / "problems.jsonl"
        file.write_text("".join(json.dumps({"id": n, "question": QUESTION}) + "\n" for n in range(number)))
        out = Path(folder) / "out"
        command = [sys.executable, "-m", "pacore", "run", str(file), "--out", str(out), "-q"]
        command += ["--base-url", url, "--model", "heavy", "--schedule", "32,4"]
        before = _stats(url)["taken"]
        planned = number * 37
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while _stats(url)["taken"] - before < planned // 2:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        taken = _stats(url)["taken"] - before
        saved = sum(path.read_bytes().count(b'"trajectory_finished"') for path in out.rglob("trace/*.jsonl"))
        subprocess.run(command, stderr=subprocess.DEVNULL, check=True)
        repeated = _stats(url)["taken"] - before - planned
    return {
        "saved": saved,
        "in_flight": taken - saved,
        "repeated": repeated,
        "lost": repeated - (taken - saved),
    }


def _stats(url: str) -> dict[str, int]:
    with urlopen(url.removesuffix("/v1") + "/stats") as response:
        stats: dict[str, int] = json.load(response)
        return stats


# Name to size, and what runs it given URL, size and the number of the run.
WORKLOADS: dict[str, tuple[int, Any]] = {
    "bare_client": (6000, lambda url, size, run: bare_client(url, size)),
    "openai_sdk": (1000, lambda url, size, run: openai_sdk(url, size)),
    "sampler_calls": (6000, lambda url, size, run: sampler_calls(url, size)),
    "run_calls": (120, lambda url, size, run: run_calls(url, size)),
    "stream_100k": (20, lambda url, size, run: run_calls(url, size, "stream-100k", stream=True)),
    "whole_100k": (40, lambda url, size, run: run_calls(url, size, "whole-100k")),
    "memory": (1000, lambda url, size, run: memory(url, size)),
    "heavy_tails": (40, lambda url, size, run: heavy_tails(url, size, seed=run, first_come=False)),
    "heavy_tails_first_come": (40, lambda url, size, run: heavy_tails(url, size, seed=run, first_come=True)),
    "faults": (200, lambda url, size, run: faults(url, size)),
    "killed": (20, lambda url, size, run: killed(url, size)),
    "plain_processes": (400, lambda url, size, run: uncontained(size)),
    "programs_of_40_tests": (20, lambda url, size, run: sandboxed(40, size)),
    "programs_of_1_test": (100, lambda url, size, run: sandboxed(1, size)),
}


def main(arguments: Iterable[str]) -> None:
    name, url, *rest = arguments
    usual, workload = WORKLOADS[name]
    size, run = (int(rest[0]) or usual, int(rest[1])) if rest else (usual, 0)
    outcome = workload(url, size, run)
    print(json.dumps(asyncio.run(outcome) if asyncio.iscoroutine(outcome) else outcome))


if __name__ == "__main__":
    main(sys.argv[1:])
