"""Math verdicts: the measured cases, properties that must hold, and hostile input."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacore.problems import read_problem
from pacore.seeds import derive_random
from pacore.verifiers.math.compare import compare_values
from pacore.verifiers.math.extract import extract_answer
from pacore.verifiers.math.parse import parse_answer
from pacore.verifiers.math.symbolic import SymbolicPool
from pacore.verifiers.math.verifier import MathVerifier

CASES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "cases" / "math_cases.jsonl").read_text().splitlines()
]
LOOKALIKES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "cases" / "math_lookalikes.jsonl").read_text().splitlines()
]
HOSTILE = [case for case in CASES if case["cat"] in ("dos", "inject")]


@pytest.fixture(scope="module")
def verifier() -> Iterator[MathVerifier]:
    with SymbolicPool(2) as pool:
        yield MathVerifier(pool)


@pytest.mark.parametrize("case", [c for c in CASES if c["policy"] != "any"], ids=lambda case: str(case["id"]))
def test_a_measured_case_is_decided_as_its_reference_says(
    verifier: MathVerifier, case: dict[str, Any]
) -> None:
    verdict = verifier.verdict(case["gold"], case["prediction"])
    assert (verdict.verdict == "correct") == case["expected"], verdict


@pytest.mark.parametrize("case", LOOKALIKES, ids=lambda case: f"{case['gold']} ~ {case['prediction']}")
def test_what_looks_alike_is_told_apart_and_what_is_alike_is_not(
    verifier: MathVerifier, case: dict[str, Any]
) -> None:
    verdict = verifier.verdict(case["gold"], case["prediction"])
    assert (verdict.verdict == "correct") == case["equal"], verdict


def test_a_verdict_does_not_depend_on_what_was_verified_before(verifier: MathVerifier) -> None:
    quick = [case for case in CASES if case not in HOSTILE]

    def verdicts(cases: list[dict[str, Any]]) -> dict[Any, str]:
        return {case["id"]: verifier.verdict(case["gold"], case["prediction"]).verdict for case in cases}

    shuffled = derive_random("order").sample(quick, len(quick))
    assert verdicts(quick) == verdicts(quick[::-1]) == verdicts(shuffled)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_no_case_takes_over_ten_seconds(verifier: MathVerifier, case: dict[str, Any]) -> None:
    begun = time.monotonic()
    verifier.verdict(case["gold"], case["prediction"])
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_every_gold_equals_itself(verifier: MathVerifier, case: dict[str, Any]) -> None:
    assert verifier.check_gold(case["gold"]).verdict == "correct"


def test_sixty_four_threads_give_the_same_verdicts(verifier: MathVerifier) -> None:
    cases = [case for case in CASES if case["cat"] in ("int", "frac", "set", "symbolic", "interval")]
    alone = [verifier.verdict(case["gold"], case["prediction"]).verdict for case in cases]
    with ThreadPoolExecutor(64) as threads:
        together = list(threads.map(lambda c: verifier.verdict(c["gold"], c["prediction"]).verdict, cases))
    assert together == alone


@pytest.mark.slow
def test_hostile_inputs_hold_up_only_the_workers_they_hold(verifier: MathVerifier) -> None:
    good = [("\\frac{1}{2}", f"so \\boxed{{{n}/{2 * n}}}") for n in range(1, 801)]
    hostile = [
        (HOSTILE[n % len(HOSTILE)]["gold"], HOSTILE[n % len(HOSTILE)]["prediction"]) for n in range(40)
    ]
    with ThreadPoolExecutor(8) as threads:
        verdicts = list(
            threads.map(lambda pair: verifier.verdict(*pair), [*good[:400], *hostile, *good[400:]])
        )
    decided = [verdict for verdict in verdicts if verdict.evidence.get("extracted", "").count("/") == 1]
    assert sum(verdict.verdict == "correct" for verdict in decided) == 800
    assert sorted(verdict.ms for verdict in decided)[int(0.99 * len(decided))] < 1000


async def test_the_verifier_reads_the_truth_of_a_problem(verifier: MathVerifier) -> None:
    problem = read_problem({"question": "1/2?", "ground_truth": {"type": "math", "answer": "\\frac12"}})
    verdict = await verifier.verify(problem, "I get \\boxed{0.5}.")
    assert (verdict.verdict, verdict.reward, verdict.evidence["extracted"]) == ("correct", 1.0, "0.5")


@pytest.mark.parametrize("gold", [None, "", "  ", True, ["1"], {}, "9" * 30_000])
def test_a_bad_gold_is_unverifiable_never_wrong(verifier: MathVerifier, gold: object) -> None:
    verdict = verifier.verdict(gold, "\\boxed{1}")
    assert verdict.verdict == "unverifiable"
    assert verdict.reason.startswith("bad_gold")


def test_without_an_engine_expressions_are_unverifiable_and_numbers_are_not() -> None:
    plain = MathVerifier()
    assert plain.verdict("(x+1)^2", "\\boxed{x^2+2x+1}").verdict == "unverifiable"
    assert plain.verdict("12", "\\boxed{12}").verdict == "correct"
    assert plain.verdict("12", "\\boxed{13}").verdict == "incorrect"


def test_the_process_that_asks_never_loads_the_engine() -> None:
    code = (
        "import sys; from pacore.verifiers.math.verifier import MathVerifier; "
        "MathVerifier().verdict('1', '\\\\boxed{2}'); print('sympy' in sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert loaded.strip() == "False"


def test_integers_beyond_any_limit_are_compared_digit_by_digit() -> None:
    digits = "7" * 15_000
    assert MathVerifier().verdict(digits, f"\\boxed{{{digits}}}").verdict == "correct"
    assert MathVerifier().verdict(digits, f"\\boxed{{{digits[:-1]}8}}").verdict == "incorrect"


@pytest.mark.parametrize(
    ("text", "require_box", "answer", "reason"),
    [
        ("the answer is 42.", False, "42", "phrase"),
        ("the answer is 42.", True, None, "no_answer"),
        ("The answer is 42, or maybe 43.", False, None, "hedged"),
        ("\\boxed{3} and \\boxed{5}", True, "3, 5", "boxed"),
        ("\\boxed{3}. No: \\boxed{5}", True, "5", "boxed"),
        ("<think>\\boxed{3}</think>", True, None, "no_answer"),
        ("<think>\\boxed{3}", True, None, "unclosed_thinking"),
        ("\\boxed{\\boxed{4}}", True, "4", "boxed"),
        ("\\boxed{}", True, None, "no_answer"),
        ("\\boxed{4", True, None, "unterminated_box"),
        ("I count 40, 41, 42, 43 and 44.\nSo there are many.", False, None, "no_answer"),
    ],
)
def test_answers_are_extracted_by_rule(text: str, require_box: bool, answer: str | None, reason: str) -> None:
    assert extract_answer(text, require_box=require_box) == (answer, reason)


numbers = st.fractions(min_value=-1000, max_value=1000, max_denominator=500)


def as_fraction(number: Fraction) -> str:
    sign = "-" if number < 0 else ""
    return f"{sign}\\frac{{{abs(number.numerator)}}}{{{number.denominator}}}"


def shown(value: st.SearchStrategy[Fraction]) -> st.SearchStrategy[str]:
    return st.one_of(value.map(str), value.map(as_fraction))


answers = st.one_of(
    shown(numbers),
    st.lists(shown(numbers), min_size=1, max_size=4).map(lambda items: "\\{" + ", ".join(items) + "\\}"),
    st.lists(shown(numbers), min_size=2, max_size=4).map(lambda items: "(" + ", ".join(items) + ")"),
    st.tuples(shown(numbers), shown(numbers)).map(lambda ends: f"[{ends[0]}, {ends[1]})"),
)


@given(answers)
def test_equivalence_is_reflexive(text: str) -> None:
    assert compare_values(parse_answer(text), parse_answer(text)) is True


@given(answers, answers)
def test_equivalence_is_symmetric(one: str, other: str) -> None:
    forth = compare_values(parse_answer(one), parse_answer(other))
    back = compare_values(parse_answer(other), parse_answer(one))
    assert forth == back


@given(numbers, numbers)
def test_numbers_are_equal_exactly_when_their_values_are(one: Fraction, other: Fraction) -> None:
    decision = compare_values(parse_answer(str(one)), parse_answer(as_fraction(other)))
    assert decision is (one == other)


@settings(max_examples=300, deadline=2000)
@given(st.text(alphabet="\\{}()[]$^_,.=<>+-*/|&% 0123456789abxyπ√±∞\n", max_size=10_000))
def test_no_text_crashes_or_hangs_the_layers_before_the_engine(text: str) -> None:
    MathVerifier().verdict("42", text)
    MathVerifier().verdict("42", f"\\boxed{{{text}}}")


@settings(max_examples=100, deadline=2000)
@given(st.text(max_size=2_000))
def test_no_unicode_crashes_the_layers_before_the_engine(text: str) -> None:
    MathVerifier().verdict(text or "x", f"\\boxed{{{text}}}")
