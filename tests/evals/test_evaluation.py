"""Evaluations against known truth: what is reported is what the script does."""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from pacore.config import Budget
from pacore.data.filling import PoolDirectory, PoolFiller
from pacore.data.pool import MessagePool
from pacore.data.record import Record
from pacore.data.truths import MathTruth, ProgramTruth
from pacore.errors import CallRejectedError, ContextOverflowError, JournalError
from pacore.evals.directory import EvalDirectory, read_outcomes
from pacore.evals.evaluation import Evaluation
from pacore.evals.methods import Method, parse_methods
from pacore.evals.statistics import pass_at_k
from pacore.evals.summary import EvalSummary, summarize
from pacore.sampling.sampler import Call, Sampler, Unwatched
from pacore.sampling.scripted import Line, ScriptedSampler
from pacore.seeds import derive_random
from pacore.session import open_session
from pacore.types import Problem, Usage, Verdict
from pacore.verifiers.math.verifier import MathVerifier
from pacore.verifiers.verifier import Verifier
from support.command import pacore, start
from support.endpoint import Answer, MockEndpoint

RIGHT, WRONG = 7, 8
RATES = (0.0, 0.2, 0.5, 0.9, 1.0)


def records(number: int = len(RATES)) -> list[Record]:
    return [
        Record(
            id=f"p{n}", messages=({"role": "user", "content": f"question {n}"},), truth=MathTruth(answer="7")
        )
        for n in range(number)
    ]


def scripted(synthesis: float = 0.3) -> ScriptedSampler:
    """Problem n is answered rightly with probability RATES[n]; a synthesis with ``synthesis``, whatever it
    reads.
    """

    def script(call: Call) -> Line:
        chance = synthesis if call.references else RATES[int(call.problem_id[1:])]
        right = derive_random("script", call.seed).random() < chance
        said = f"\\boxed{{{RIGHT if right else WRONG}}}"
        words = "As Reference 1 and ref 2 say: " if call.references else ""
        return Line(content=words + said, usage=Usage(prompt_tokens=10, completion_tokens=100))

    return ScriptedSampler(script)


async def make_pool(
    path: Path, sampler: Sampler, size: int, seed: int = 0, todo: Sequence[Record] | None = None
) -> None:
    async with open_session(sampler) as session:
        with PoolDirectory(path, {"seed": seed}, reasoning="dropped") as directory:
            filler = PoolFiller(session, directory, size=size, verifier=MathVerifier(), seed=seed)
            await filler.run(records() if todo is None else todo)


async def evaluate(
    out: Path,
    endpoint: Any,
    methods: Sequence[Method],
    *,
    pool: Path | None = None,
    runs: int = 1,
    seed: int = 0,
    todo: Sequence[Record] | None = None,
    concurrency: int = 16,
    verifier: Verifier | None = None,
    others: dict[str, Any] | None = None,
    budget: Budget | None = None,
    accept_failures: bool = False,
) -> int:
    todo = records() if todo is None else todo
    settings = {f"method {m.name}": {"schedule": m.schedule, "votes": m.votes} for m in methods}
    schedules = [method.schedule for method in methods if method.schedule is not None]
    async with open_session(
        endpoint, others=others, schedules=schedules, concurrency=concurrency, budget=budget
    ) as session:
        with EvalDirectory(out, {"seed": seed, **settings}, todo) as directory:
            opened = MessagePool(pool) if pool is not None else None
            evaluation = Evaluation(
                session,
                directory,
                todo,
                methods,
                runs=runs,
                verifier=verifier or MathVerifier(),
                pool=opened,
                seed=seed,
                accept_failures=accept_failures,
            )
            await evaluation.run()
            if opened is not None:
                opened.__exit__(None, None, None)
    return evaluation.failed


def by_name(summary: EvalSummary) -> dict[str, Any]:
    return {method.name: method for method in summary.methods}


def binomial_majority(chance: float, k: int) -> float:
    """The chance that a vote of k between right and one wrong answer is right, a tie being half a chance."""
    total = 0.0
    for right in range(k + 1):
        share = 1.0 if 2 * right > k else 0.5 if 2 * right == k else 0.0
        total += share * math.comb(k, right) * chance**right * (1 - chance) ** (k - right)
    return total


@pytest.mark.slow
async def test_figures_agree_with_closed_forms_over_many_repetitions(tmp_path: Path) -> None:
    repetitions, size, k, width = 200, 16, 4, 4
    methods = parse_methods(f"single,[{width}],self-consistency@{k}")
    found: dict[str, list[float]] = {
        "pass@1": [],
        "se": [],
        "pass@k": [],
        "majority": [],
        "ecr": [],
        "of": [],
    }
    for number in range(repetitions):
        sampler = scripted()
        pool, out = tmp_path / f"pool{number}", tmp_path / f"eval{number}"
        await make_pool(pool, sampler, size, seed=number)
        await evaluate(out, sampler, methods, pool=pool, runs=2, seed=number)
        summary = summarize(out)
        named = by_name(summary)
        assert summary.pool is not None
        found["pass@1"].append(named["single"].accuracy.mean)
        found["se"].append(named["single"].accuracy.se)
        found["pass@k"].append(next(point.pass_at_k for point in summary.pool.curve if point.k == k))
        found["majority"].append(named[f"self-consistency@{k}"].accuracy.mean)
        emergent = named[f"[{width}]"].emergent
        found["ecr"].append(emergent.value)
        found["of"].append(emergent.of)
    expected = {
        "pass@1": np.mean(RATES),
        "pass@k": np.mean([1 - (1 - rate) ** k for rate in RATES]),
        "majority": np.mean([binomial_majority(rate, k) for rate in RATES]),
        "ecr": 0.3,
    }
    for name, wanted in expected.items():
        values = np.array(found[name])
        error = values.std(ddof=1) / math.sqrt(repetitions)
        assert abs(values.mean() - wanted) <= 3 * error, f"{name}: {values.mean()} for {wanted} ± {error}"
    # Two runs a problem: the spread of the rates themselves, and of two draws around each.
    within = sum(rate * (1 - rate) / 2 for rate in RATES) / len(RATES)
    clustered = math.sqrt((np.var(RATES, ddof=1) + within) / len(RATES))
    squares = np.array(found["se"]) ** 2
    assert abs(squares.mean() - clustered**2) <= 3 * squares.std(ddof=1) / math.sqrt(repetitions)
    # All four of four are wrong on the impossible problem always, on the others now and then.
    wrong = 2 * sum((1 - rate) ** width for rate in RATES)
    counts = np.array(found["of"])
    assert abs(counts.mean() - wrong) <= 3 * counts.std(ddof=1) / math.sqrt(repetitions)


async def test_tokens_are_those_of_all_trajectories(tmp_path: Path) -> None:
    methods = parse_methods("single,[4],[8,2],self-consistency@4")
    sampler = scripted()
    await make_pool(tmp_path / "pool", sampler, 8)
    await evaluate(tmp_path / "eval", sampler, methods, pool=tmp_path / "pool")
    named = by_name(summarize(tmp_path / "eval"))
    assert {name: method.tokens for name, method in named.items()} == {
        "single": 100,
        "[4]": 500,
        "[8,2]": 1100,
        "self-consistency@4": 400,
    }
    assert named["[4]"].cross_checks == 2
    assert named["[4]"].matched.votes == 5
    assert named["[8,2]"].matched.votes == 8
    assert named["[8,2]"].matched.short
    assert named["self-consistency@4"].calls == 4


async def test_first_rounds_are_drawn_and_later_ones_shared(tmp_path: Path) -> None:
    sampler = scripted()
    await make_pool(tmp_path / "pool", sampler, 8)
    made = len(sampler.calls)
    await evaluate(tmp_path / "eval", sampler, parse_methods("[8,4],[8,2]"), pool=tmp_path / "pool")
    # [8, 2] reads what [8, 4] reads: its second round is two of those four.
    assert len(sampler.calls) - made == len(RATES) * (4 + 1 + 1)
    assert all(call.round > 1 for call in sampler.calls[made:])


async def test_each_run_draws_anew(tmp_path: Path) -> None:
    sampler = scripted()
    await make_pool(tmp_path / "pool", sampler, 16)
    made = len(sampler.calls)
    await evaluate(tmp_path / "eval", sampler, parse_methods("[4]"), pool=tmp_path / "pool", runs=3)
    prompts = {(call.problem_id, call.prompt.encoded) for call in sampler.calls[made:]}
    seeds = {call.seed for call in sampler.calls[made:]}
    assert len(seeds) == 3 * len(RATES)
    assert len(prompts) > 2 * len(RATES) - 3


async def test_running_again_makes_only_what_is_missing(tmp_path: Path) -> None:
    sampler = scripted()
    await evaluate(tmp_path, sampler, parse_methods("[2]"))
    first = len(sampler.calls)
    assert first == len(RATES) * 3
    await evaluate(tmp_path, sampler, parse_methods("[2]"))
    assert len(sampler.calls) == first
    # The same first round once more, a final call of its own.
    await evaluate(tmp_path, sampler, parse_methods("[2],[2,1]"))
    assert len(sampler.calls) - first == len(RATES) * 1
    await evaluate(tmp_path, sampler, parse_methods("[2],[2,1]"), runs=2)
    assert len(list(read_outcomes(tmp_path))) == len(RATES) * 2 * 2


async def test_interrupted_anywhere_it_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    methods = parse_methods("[4],[2,2],single")
    await evaluate(tmp_path / "whole", scripted(), methods, runs=2)
    calls = 0

    def fails_after(limit: int) -> ScriptedSampler:
        inner = scripted()

        async def script(call: Call) -> Line:
            nonlocal calls
            calls += 1
            if len(sampler.calls) > limit:
                raise StoppedError
            trajectory = await inner.sample(call, Unwatched())
            return Line(content=trajectory.content, usage=trajectory.usage)

        sampler = ScriptedSampler(script)
        return sampler

    for limit in (1, 7, 20, 33):
        with pytest.raises(StoppedError):
            await evaluate(tmp_path / "cut", fails_after(limit), methods, runs=2)
    await evaluate(tmp_path / "cut", scripted(), methods, runs=2)

    def lines(name: str) -> list[tuple[Any, ...]]:
        return sorted(
            (o.method, o.problem, o.run, o.reward, o.ttc_tokens, o.answer, o.synthesis)
            for o in read_outcomes(tmp_path / name)
        )

    assert lines("cut") == lines("whole")


def by_question(body: dict[str, Any]) -> Answer:
    right = body["seed"] % 3 == 0
    return Answer(f"\\boxed{{{RIGHT if right else WRONG}}}", usage=None)


@pytest.mark.slow
async def test_a_killed_command_goes_on_and_repeats_no_finished_call(
    upstream: MockEndpoint, tmp_path: Path
) -> None:
    upstream.behaviour = by_question
    rows = [{"id": f"p{n}", "question": f"question {n}", "ground_truth": "7"} for n in range(12)]
    (tmp_path / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def command(out: str) -> tuple[str, ...]:
        return (
            *("eval", "run", "problems.jsonl", "--methods", "[4],[4,2],single,best-of-n", "--runs", "2"),
            *("--out", out, "--concurrency", "4", "--base-url", upstream.url, "--model", "mock", "--quiet"),
        )

    whole = await pacore(*command("whole"), cwd=tmp_path)
    assert whole.status == 0, whole.err
    needed = len(upstream.requests)
    for killed_after in (40, 150, 400):
        process = await start(*command("killed"), cwd=tmp_path)
        await upstream.wait_for_requests(needed + killed_after)
        os.kill(process.pid, signal.SIGKILL)
        await process.communicate()
    killed = await pacore(*command("killed"), cwd=tmp_path)
    assert (killed.status, killed.out) == (0, whole.out)
    assert len(upstream.requests) - needed <= needed + 3 * 4

    def lines(name: str) -> list[tuple[Any, ...]]:
        return sorted(
            (o.method, o.problem, o.run, o.reward, o.answer, o.synthesis)
            for o in read_outcomes(tmp_path / name)
        )

    assert lines("killed") == lines("whole")


@pytest.mark.parametrize("round_failing", [1, 2])
async def test_failed_calls_leave_no_result_and_are_made_again(tmp_path: Path, round_failing: int) -> None:
    inner = scripted()

    async def script(call: Call) -> Line:
        if call.round == round_failing and call.index == 0:
            return Line(fault=CallRejectedError("no", status=400))
        trajectory = await inner.sample(call, Unwatched())
        return Line(content=trajectory.content, usage=trajectory.usage)

    failing = ScriptedSampler(script)
    # In round 1 half of the messages are enough, in round 2 the best message stands in: both are degraded by
    # an outage, which is no property of the method.
    assert await evaluate(tmp_path, failing, parse_methods("[4]")) == len(RATES)
    assert not list(read_outcomes(tmp_path))
    assert await evaluate(tmp_path, scripted(), parse_methods("[4]")) == 0
    assert len(list(read_outcomes(tmp_path))) == len(RATES)


async def test_failures_can_be_accepted_as_they_come_out(tmp_path: Path) -> None:
    failing = ScriptedSampler(lambda call: Line(fault=CallRejectedError("no", status=400)))
    assert await evaluate(tmp_path, failing, parse_methods("single"), accept_failures=True) == 0
    assert {outcome.status for outcome in read_outcomes(tmp_path)} == {"failed"}


async def test_a_budget_that_ran_out_leaves_no_result(tmp_path: Path) -> None:
    sampler = scripted()
    failed = await evaluate(tmp_path, sampler, parse_methods("[4]"), budget=Budget(tokens=900))
    assert failed
    assert all(outcome.status == "complete" for outcome in read_outcomes(tmp_path))


async def test_a_problem_beyond_the_window_is_wrong_not_missing(tmp_path: Path) -> None:
    def script(call: Call) -> Line:
        if call.problem_id == "p0":
            return Line(fault=ContextOverflowError("too long", window=10, prompt_tokens=5000))
        return Line(content=f"\\boxed{{{RIGHT}}}")

    assert await evaluate(tmp_path, ScriptedSampler(script), parse_methods("single")) == 0
    summary = summarize(tmp_path)
    (single,) = summary.methods
    assert (single.accuracy.problems, single.accuracy.mean) == (5, 0.8)


async def test_one_call_is_one_call_and_a_cut_answer_is_wrong(tmp_path: Path) -> None:
    def script(call: Call) -> Line:
        cut = call.index % 2 == 0
        return Line(content=f"\\boxed{{{RIGHT}}}", finish_reason="length" if cut else "stop")

    sampler = ScriptedSampler(script)
    await make_pool(tmp_path / "pool", sampler, 8)
    await evaluate(tmp_path / "eval", sampler, parse_methods("single"), pool=tmp_path / "pool", runs=8)
    outcomes = list(read_outcomes(tmp_path / "eval"))
    assert {outcome.calls for outcome in outcomes} == {1}
    truncated = [outcome.truncated for outcome in outcomes]
    assert set(truncated) == {0, 1}
    assert [outcome.reward for outcome in outcomes] == [float(not cut) for cut in truncated]


async def test_a_judge_that_is_down_leaves_no_verdict_and_no_result(tmp_path: Path) -> None:
    class Judge:
        def __init__(self) -> None:
            self.down = True

        async def verify(self, problem: Problem, text: str) -> Verdict:
            if self.down:
                return Verdict(verdict="unverifiable", reason="judge: no verdict", transient=True)
            return Verdict(verdict="correct", reward=1.0)

    judge = Judge()
    assert await evaluate(tmp_path, scripted(), parse_methods("[2]"), verifier=judge) == len(RATES)
    judge.down = False
    assert await evaluate(tmp_path, scripted(), parse_methods("[2]"), verifier=judge) == 0
    assert {outcome.reward for outcome in read_outcomes(tmp_path)} == {1.0}


async def test_another_truth_or_question_under_a_known_id_is_refused(tmp_path: Path) -> None:
    await evaluate(tmp_path, scripted(), parse_methods("single"))
    changed = [msgspec.structs.replace(records()[0], truth=MathTruth(answer="9"))]
    with pytest.raises(JournalError, match="another truth"):
        await evaluate(tmp_path, scripted(), parse_methods("single"), todo=changed)
    more = [*records(), Record(id="p4b", messages=({"role": "user", "content": "?"},))]
    assert await evaluate(tmp_path, scripted(), parse_methods("single"), todo=more[:5]) == 0


async def test_endpoints_with_the_same_model_do_not_share_calls(tmp_path: Path) -> None:
    one, other = scripted(), scripted()
    tables = {"both": {"widths": [2], "final": {"endpoints": ["other"]}}}
    methods = parse_methods("[2],both", tables)
    await evaluate(tmp_path, one, methods, others={"other": other})
    assert len(one.calls) == len(RATES) * 3
    assert len(other.calls) == len(RATES) * 1


async def test_programs_have_no_votes(tmp_path: Path) -> None:
    said = "The answer is to use a set.\n```python\nprint(1)\n```"
    record = Record(
        id="p0",
        messages=({"role": "user", "content": "question 0"},),
        truth=ProgramTruth(tests=({"input": "", "output": "1"},)),
    )
    sampler = ScriptedSampler(lambda call: said)
    await make_pool(tmp_path / "pool", sampler, 8, todo=[record])
    await evaluate(tmp_path / "eval", sampler, parse_methods("[2]"), pool=tmp_path / "pool", todo=[record])
    summary = summarize(tmp_path / "eval")
    assert summary.pool is not None
    assert not summary.pool.curve
    assert summary.methods[0].matched is None


async def test_a_method_that_comes_to_no_answer_is_wrong_not_missing(tmp_path: Path) -> None:
    cut = ScriptedSampler(lambda call: Line(content="half", finish_reason="length"))
    assert await evaluate(tmp_path, cut, parse_methods("[2]")) == 0
    outcomes = list(read_outcomes(tmp_path))
    assert {outcome.status for outcome in outcomes} == {"failed"}
    assert {outcome.verdict for outcome in outcomes} == {"incorrect"}
    summary = by_name(summarize(tmp_path))["[2]"]
    assert (summary.failed, summary.truncated) == (1.0, 1.0)


async def test_harm_is_told(tmp_path: Path) -> None:
    def script(call: Call) -> str:
        return f"\\boxed{{{WRONG if call.references else RIGHT}}}"

    await evaluate(tmp_path, ScriptedSampler(script), parse_methods("[4]"))
    found = by_name(summarize(tmp_path))["[4]"]
    assert (found.accuracy.mean, found.harm.value, found.emergent) == (0.0, 1.0, None)


async def test_what_a_pool_passes_is_unbiased(tmp_path: Path) -> None:
    sampler = scripted()
    await make_pool(tmp_path / "pool", sampler, 32)
    await evaluate(tmp_path / "eval", sampler, parse_methods("self-consistency@8"), pool=tmp_path / "pool")
    summary = summarize(tmp_path / "eval")
    assert summary.pool is not None
    with MessagePool(tmp_path / "pool") as pool:
        right = [sum(r.verdict == "correct" for r in pool.rulings(f"p{n}").values()) for n in range(5)]
    for point in summary.pool.curve:
        assert point.pass_at_k == pytest.approx(np.mean([pass_at_k(32, count, point.k) for count in right]))
    assert [point.k for point in summary.pool.curve] == [1, 2, 4, 8, 16]
