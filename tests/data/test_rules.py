"""What the rules leave out, and what they must leave in."""

from __future__ import annotations

from typing import Any

import pytest

from pacore.data.record import Record
from pacore.data.steps.rules import RuleFilter
from pacore.data.steps.step import Fallen
from pacore.data.truths import MathTruth, OpaqueTruth, ProgramTruth, Truth


def outcome(question: Any, truth: Truth | str = "1", **settings: Any) -> str:
    record = Record(
        id="r",
        messages=({"role": "user", "content": question},),
        truth=MathTruth(answer=truth) if isinstance(truth, str) else truth,
    )
    (found,) = RuleFilter(**settings)([record])
    return found.reason if isinstance(found, Fallen) else "kept"


FALLS = {
    "image": [
        "Find the area. ![figure](a.png)",
        "In the figure, find x.",
        "Find $x$ in the diagram below.",
        "Shown: [asy] draw((0,0)--(1,1)); [/asy] Find the length.",
        "\\includegraphics{x.png} What is shown?",
    ],
    "link": ["See https://example.org/1 and solve.", "See www.example.org/1."],
    "several_parts": [
        "Let f(x)=x. (a) Find f(1). (b) Find f(2).",
        "1. Compute 1+1. 2. Compute 2+2.",
        "Given a triangle: (i) find its area; (ii) determine its perimeter.",
        "What is the sum? Also, what is the product?",
    ],
    "open_ended": [
        "Prove that 2 is prime.",
        "Let n be odd. Show that n^2 is odd.",
        "Find all n, and prove that there are no others.",
        "Explain why.",
    ],
}


@pytest.mark.parametrize(
    ("reason", "question"), [(r, q) for r, questions in FALLS.items() for q in questions]
)
def test_questions_that_fall(reason: str, question: str) -> None:
    assert outcome(question) == reason


@pytest.mark.parametrize(
    "question",
    [
        "Find all functions f such that (1) f(0) = 1, and (2) f(x + y) = f(x) f(y).",
        "Let A = (a) and B = (b). Find AB.",
        "Compute $f(1)$ where (i) holds for all $x$.",
        "Draw a tangent from P to the circle of radius 3. Find its length.",
        "A picture costs 5 dollars. How many can be bought for 20?",
        "The graph G has 5 vertices. How many edges can it have at most?",
        "Show your work and find $x$.",
        "What is 1 + 1? Give the integer.",
    ],
)
def test_questions_that_stay(question: str) -> None:
    assert outcome(question) == "kept"


@pytest.mark.parametrize("answer", ["3 and 5", "x=1 \\text{ or } x=2", "2; 7", "1, 2", "5或6"])
def test_several_answers_fall(answer: str) -> None:
    assert outcome("Solve.", answer) == "several_answers"


@pytest.mark.parametrize(
    "answer", ["(3, 5)", "\\{1, 2\\}", "[1, 2)", "1,234", "\\frac{1}{2}", "x^2+1", "Paris"]
)
def test_one_answer_stays(answer: str) -> None:
    assert outcome("Solve.", answer) == "kept"


def test_prose_and_missing_answers_fall() -> None:
    prose = "All sequences that are eventually constant starting with a perfect square number"
    assert outcome("Find them.", prose) == "open_ended"
    assert outcome("Find it.", "  ") == "no_answer"
    assert outcome("Find it.", OpaqueTruth(value=None)) == "no_answer"


def test_parts_that_are_no_text_fall() -> None:
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": "x"}}]
    assert outcome(parts) == "image"


def test_programs_want_tests_and_may_have_links() -> None:
    tests = tuple({"input": str(n), "output": str(n)} for n in range(5))
    assert (
        outcome("Echo it, see https://example.org. (a) Find x. (b) Find y.", ProgramTruth(tests=tests))
        == "kept"
    )
    assert outcome("Echo it.", ProgramTruth(tests=tests[:4])) == "few_tests"
    assert outcome("Echo it.", ProgramTruth(tests=tests[:4]), least_tests=4) == "kept"


def test_rules_can_be_left_out() -> None:
    assert outcome("Prove that 2 is prime.", without=["open_ended"]) == "kept"
