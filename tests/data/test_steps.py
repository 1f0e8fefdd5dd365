"""The steps that run programs or ask models: tests, checkers, validity, stages; and arithmetic."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pacore.data.episodes import draw_messages
from pacore.data.filling import PoolDirectory, PoolFiller
from pacore.data.pool import MessagePool
from pacore.data.record import Record, Response
from pacore.data.steps.accuracy import MessageAccuracyFilter, SynthesisAccuracyFilter
from pacore.data.steps.arithmetic import OPERATIONS, PRIME, make_arithmetic
from pacore.data.steps.checker_choice import CheckerChoice, choose_checker
from pacore.data.steps.codetests import TestGeneration
from pacore.data.steps.concurrent import in_order
from pacore.data.steps.resuming import ResumedStep
from pacore.data.steps.step import Fallen
from pacore.data.steps.validity import ValidityJudge
from pacore.data.truths import IntegerTruth, MathTruth, ProgramTruth, Truth
from pacore.errors import ConfigError, EndpointRefusedError, ProblemError
from pacore.sampling.sampler import Call
from pacore.sampling.scripted import Line, ScriptedSampler
from pacore.seeds import derive_seed
from pacore.session import open_session
from pacore.verifiers.cache import CachedVerifier, VerdictFile
from pacore.verifiers.code.verifier import CodeVerifier
from pacore.verifiers.judge.protocols import VALIDITY
from pacore.verifiers.judge.verifier import JudgeVerifier
from pacore.verifiers.math.verifier import MathVerifier
from pacore.verifiers.sandbox.choose import find_sandbox

Outcome = Record | Fallen


def a_record(identity: str = "r", truth: Truth | None = None, **fields: Any) -> Record:
    return Record(
        id=identity,
        messages=({"role": "user", "content": f"question {identity}"},),
        truth=truth or MathTruth(answer="1"),
        **fields,
    )


async def collected(outcomes: AsyncIterator[Outcome]) -> list[Outcome]:
    return [outcome async for outcome in outcomes]


def test_a_step_goes_on_after_what_its_journal_holds(tmp_path: Path) -> None:
    taken: list[str] = []

    def step(records: Iterable[Record]) -> Iterator[Outcome]:
        for record in records:
            if len(taken) in (3, 5):
                taken.append("stop")
                raise KeyboardInterrupt
            taken.append(record.id)
            yield Fallen(id=record.id, reason="no") if record.id == "r1" else record

    records = [a_record(f"r{n}", extra={"n": n}) for n in range(6)]
    journal = tmp_path / "outcomes.jsonl"
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            list(ResumedStep(step, journal, "a")(records))
    journal.write_bytes(journal.read_bytes()[:-5])
    outcomes = list(ResumedStep(step, journal, "a")(records))
    assert outcomes == [
        Fallen(id="r1", reason="no") if n == 1 else record for n, record in enumerate(records)
    ]
    # The line that was torn is made again, and nothing else.
    assert taken == ["r0", "r1", "r2", "stop", "r3", "stop", "r3", "r4", "r5"]
    assert list(ResumedStep(step, journal, "b")(records)) == outcomes
    assert taken[-6:] == [f"r{n}" for n in range(6)]


def test_arithmetic_is_exact_within_bounds_and_without_repetition() -> None:
    made = list(make_arithmetic(400, seed=1))
    assert len({record.question for record in made}) == 400
    assert {record.extra["operation"] for record in made} == set(OPERATIONS)
    for record in made:
        assert isinstance(record.truth, IntegerTruth)
        numbers = [int(found) for found in re.findall(r"\d+", record.question)]
        powers = record.extra["operation"] == "power"
        m = numbers.pop() if powers else 0
        if "Subtract" in record.question or "Add" in record.question:
            numbers.reverse()
        a, b = numbers
        assert all(10**11 <= value <= 10**13 for value in (a, b))
        results = {"add": a + b, "subtract": a - b, "multiply": a * b}
        wanted = pow(a, b, m) if powers else results[record.extra["operation"]]
        assert int(record.truth.answer) == wanted, record.question
        assert not powers or m == PRIME


def test_arithmetic_follows_from_its_seed_and_comes_in_every_size() -> None:
    def questions(**settings: Any) -> list[str]:
        return [record.question for record in make_arithmetic(20, **settings)]

    assert questions(seed=3) == questions(seed=3)
    assert questions(seed=3) != questions(seed=4)
    small = questions(low=0, high=9, operations=("add",))
    assert all(int(found) <= 9 for question in small for found in re.findall(r"\d+", question))
    for settings in ({"low": 5, "high": 4}, {"low": 1, "high": 2}, {"operations": ("divide",)}):
        with pytest.raises(ConfigError, match="arithmetic"):
            questions(**settings)


SUM = "print(sum(map(int, input().split())))"
SLOWER_SUM = "a, b = input().split()\nprint(int(a) + int(b))"
DIFFERENCE = "a, b = map(int, input().split())\nprint(a - b)"
SMALL_SUM = "a, b = map(int, input().split())\nprint((a + b) % 50)"
GENERATE = (
    "import random, sys\nrandom.seed(int(sys.argv[1]))\nprint(random.randint(0, 99), random.randint(0, 99))"
)
VALIDATE = "a, b = map(int, input().split())\nassert 0 <= a < 100 and 0 <= b < 100"
ONE_TEST = ({"input": "1 1\n", "output": "2\n"},)


def a_program(**companions: Any) -> Record:
    given = {"references": [SUM, SLOWER_SUM], "generator": GENERATE, "validator": VALIDATE, **companions}
    truth = ProgramTruth(
        tests=ONE_TEST,
        checker="wcmp",
        extra={key: value for key, value in given.items() if value is not None},
    )
    return a_record(truth=truth)


def generate(record: Record, **settings: Any) -> Outcome:
    sandbox = find_sandbox()
    with CodeVerifier(sandbox) as verifier:
        (found,) = TestGeneration(sandbox, verifier, number=5, **settings)([record])
    return found


def test_tests_are_made_that_all_solutions_agree_on() -> None:
    found = generate(a_program(wrong=[DIFFERENCE, {"language": "python", "source": SMALL_SUM}]))
    assert isinstance(found, Record), found
    assert isinstance(found.truth, ProgramTruth)
    assert len(found.truth.tests) == 6
    assert len({test["input"] for test in found.truth.tests}) == 6
    for test in found.truth.tests:
        assert sum(map(int, test["input"].split())) == int(test["output"])
    assert generate(a_program()) == generate(a_program())


@pytest.mark.parametrize(
    ("companions", "reason"),
    [
        ({"references": [SUM, DIFFERENCE]}, "references_disagree"),
        ({"references": ["raise SystemExit(1)"]}, "reference_fails"),
        ({"validator": "raise SystemExit(1)"}, "no_valid_input"),
        ({"generator": "raise ValueError('no')"}, "generator_fails"),
        ({"generator": "print('1 1')"}, "no_valid_input"),
        ({"wrong": [SLOWER_SUM]}, "wrong_passes"),
        ({"validator": None}, "no_validator"),
        ({"references": None}, "no_right_solution"),
        ({"references": [7]}, "bad_programs"),
    ],
)
def test_programs_that_contradict_each_other_fall(companions: dict[str, Any], reason: str) -> None:
    found = generate(a_program(**companions))
    assert isinstance(found, Fallen)
    assert found.reason == reason


def test_problems_without_a_generator_pass_unless_one_is_required() -> None:
    plain = a_program(generator=None)
    assert generate(plain) == plain
    assert isinstance(generate(plain, required=True), Fallen)


@pytest.mark.parametrize(
    ("pairs", "checker"),
    [
        ([("12\n", "12")], "icmp"),
        ([("9223372036854775807", "9223372036854775807 ")], "icmp"),
        ([("9223372036854775808", "9223372036854775808")], "wcmp"),
        ([("1 2 3\n", "1 2\n3\n")], "ncmp"),
        ([("YES", "yes"), ("NO", "No")], "yesno"),
        ([("YES NO", "yes no")], "nyesno"),
        ([("0.333333333", "0.3333333333")], "rcmp9"),
        ([("0.333333", "0.3333333333")], "rcmp6"),
        ([("a b\nc", "a  b\nc\n")], "wcmp"),
        ([("impossible", "Impossible")], None),
    ],
)
def test_the_first_checker_that_fits_is_chosen(pairs: list[tuple[str, str]], checker: str | None) -> None:
    assert choose_checker(pairs) == checker


def test_a_problem_gets_the_checker_that_its_solutions_pass() -> None:
    def chosen(solution: str, output: str) -> Outcome:
        truth = ProgramTruth(tests=({"input": "3\n", "output": output},), extra={"reference": solution})
        (found,) = CheckerChoice(find_sandbox())([a_record(truth=truth)])
        return found

    found = chosen("print(1 / int(input()))", "0.333333333")
    assert isinstance(found, Record)
    assert isinstance(found.truth, ProgramTruth)
    assert found.truth.checker == "rcmp9"
    several = chosen("print('b', 'a')", "a b")
    assert isinstance(several, Fallen)
    assert several.reason == "needs_a_judge"
    crashing = chosen("print(1 / 0)", "1")
    assert isinstance(crashing, Fallen)
    assert crashing.reason == "reference_fails"
    named = a_record(truth=ProgramTruth(tests=ONE_TEST, checker="lcmp"))
    assert list(CheckerChoice(find_sandbox())([named])) == [named]


def a_judge(reply: Any) -> ValidityJudge:
    sampler = ScriptedSampler(reply)
    return ValidityJudge(JudgeVerifier(sampler, VALIDITY, judgments=4, rule="unanimous"))


async def test_four_of_four_passes_are_wanted() -> None:
    def script(call: Call) -> str:
        text = call.prompt.messages[-1]["content"]
        bad = "question bad" in text or ("question mixed" in text and derive_seed(text, call.seed) % 3 == 0)
        return f'{{"reasoning": "", "usable": "{"no" if bad else "yes"}"}}'

    names = ["good", "bad", "fine", *(f"mixed{n}" for n in range(20))]
    outcomes = await collected(a_judge(script)([a_record(name) for name in names]))
    assert [outcome.id for outcome in outcomes] == names
    fell = {outcome.id: outcome.reason for outcome in outcomes if isinstance(outcome, Fallen)}
    assert fell["bad"] == "not_valid"
    assert "good" not in fell
    # Each passes four times with probability (2/3)**4, about 0.2.
    assert 10 <= len(fell) <= 20


async def test_a_judge_that_says_nothing_has_its_own_reason_and_programs_are_not_asked() -> None:
    program = a_record("code", ProgramTruth(tests=ONE_TEST))
    outcomes = await collected(a_judge(lambda call: "hm")([a_record("x"), program]))
    assert isinstance(outcomes[0], Fallen)
    assert outcomes[0].reason == "judge_undecided"
    assert outcomes[1] == program


async def make_pool(path: Path, rates: dict[str, float], size: int = 24) -> None:
    def script(call: Call) -> Line:
        rate = rates[call.problem_id]
        if rate < 0:
            return Line(content="half", finish_reason="length")
        return Line(content=f"\\boxed{{{1 if call.index < rate * size else 2}}}")

    async with open_session(ScriptedSampler(script)) as session:
        with PoolDirectory(path, {}, reasoning="dropped") as directory:
            filler = PoolFiller(session, directory, size=size, verifier=MathVerifier())
            await filler.run([a_record(name) for name in rates])


async def test_stage_1_keeps_what_is_right_now_and_then(tmp_path: Path) -> None:
    rates = {"never": 0.0, "once": 1 / 24, "eight": 8 / 24, "nine": 9 / 24, "always": 1.0, "cut": -1.0}
    await make_pool(tmp_path, rates)
    with MessagePool(tmp_path) as pool:
        outcomes = {
            found.id: found
            for found in MessageAccuracyFilter(pool)(a_record(name) for name in [*rates, "new"])
        }
    kept = {name: found for name, found in outcomes.items() if isinstance(found, Record)}
    assert set(kept) == {"once", "eight"}
    assert len(kept["once"].pool) == 24
    assert sum(response.reward or 0 for response in kept["eight"].pool) == 8
    assert kept["eight"].extra["message_accuracy"] == pytest.approx(8 / 24)
    reasons = {name: found.reason for name, found in outcomes.items() if isinstance(found, Fallen)}
    assert reasons == {
        "never": "never_right",
        "nine": "too_easy",
        "always": "too_easy",
        "cut": "never_right",
        "new": "no_pool",
    }


def test_stage_1_has_another_bound_for_code_and_reads_rewards_in_records() -> None:
    pool = tuple(Response(content=str(n), reward=float(n < 12)) for n in range(24))
    code = a_record("code", ProgramTruth(tests=ONE_TEST), pool=pool)
    math = a_record("math", pool=pool)
    bare = a_record("bare", pool=(Response(content="x"),))
    outcomes = list(MessageAccuracyFilter(None)([code, math, bare]))
    assert isinstance(outcomes[0], Record)
    assert [found.reason for found in outcomes[1:] if isinstance(found, Fallen)] == [
        "too_easy",
        "not_verified",
    ]


async def test_stage_2_keeps_what_is_synthesised_rightly_now_and_then(tmp_path: Path) -> None:
    def script(call: Call) -> Line:
        read = call.prompt.messages[-1]["content"].count("Reference")
        assert read >= 3
        right = {"never": False, "always": True}.get(call.problem_id, call.index % 4 == 0)
        if call.problem_id == "failing":
            raise EndpointRefusedError("no") if call.index > 20 else ProblemError("never")
        return Line(content=f"\\boxed{{{1 if right else 2}}}")

    pool = tuple(Response(content=f"\\boxed{{{n}}}") for n in range(8))
    records = [a_record(name, pool=pool) for name in ("never", "always", "sometimes")]
    with VerdictFile(tmp_path / "verdicts.jsonl") as file:
        step = SynthesisAccuracyFilter(
            ScriptedSampler(script), CachedVerifier(MathVerifier(), [file]), episodes=16, low=3, high=6
        )
        outcomes = await collected(step([*records, a_record("bare")]))
    reasons = {found.id: found.reason for found in outcomes if isinstance(found, Fallen)}
    assert reasons == {"never": "never_right", "always": "always_right", "bare": "no_message"}
    kept = next(found for found in outcomes if isinstance(found, Record))
    assert kept.extra["synthesis_accuracy"] == 0.25


def test_episodes_are_drawn_anew_each_time_and_follow_from_their_number() -> None:
    record = a_record(pool=tuple(Response(content=str(n)) for n in range(24)))
    drawn = [draw_messages(record, number) for number in range(200)]
    assert drawn == [draw_messages(record, number) for number in range(200)]
    assert {len(messages) for messages in drawn} == set(range(16, 25))
    assert all(len(set(messages)) == len(messages) for messages in drawn)
    assert len({tuple(messages) for messages in drawn}) == 200
    firsts = {messages[0] for messages in drawn}
    assert len(firsts) == 24
    assert len(draw_messages(a_record(pool=(Response(content="x"),)), 0)) == 1
    with pytest.raises(ProblemError, match="no message"):
        draw_messages(a_record(), 0)


async def test_work_under_way_is_limited_and_comes_in_order() -> None:
    import asyncio

    under_way, most = 0, 0

    async def work(item: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        for _ in range(item % 3 + 1):
            await asyncio.sleep(0)
        under_way -= 1
        return item

    assert [made async for made in in_order(work, range(100), limit=7)] == list(range(100))
    assert most == 7


async def test_what_one_piece_of_work_raises_ends_the_rest() -> None:
    async def work(item: int) -> int:
        if item == 5:
            raise ProblemError("the fifth")
        return item

    with pytest.raises(ProblemError, match="the fifth"):
        [made async for made in in_order(work, range(100), limit=3)]
