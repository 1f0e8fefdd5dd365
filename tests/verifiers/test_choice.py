"""Multiple choice."""

from __future__ import annotations

import pytest

from pacore.verifiers.choice import choice_verdict

TRUTH = {"type": "choice", "answer": "B", "choices": ["Rome", "Paris", "\\frac{1}{2}"]}


@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{B}",
        "\\boxed{(B)}",
        "\\boxed{\\text{B}}",
        "\\boxed{\\textbf{(B)}\\ Paris}",
        "The answer is B.",
        "The answer is (B) Paris.",
        "Answer: **B**",
        "b",
        "Option B",
        "\\boxed{Paris}",
        "the answer is paris",
    ],
)
def test_the_right_choice_is_recognised(text: str) -> None:
    assert choice_verdict(TRUTH, text).verdict == "correct"


@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{A}",
        "\\boxed{Rome}",
        "\\boxed{Bordeaux}",
        "\\boxed{0.5}",
        "\\boxed{AB}",
        "no idea, really\nno",
    ],
)
def test_another_choice_or_none_is_incorrect(text: str) -> None:
    assert choice_verdict(TRUTH, text).verdict == "incorrect"


def test_a_truth_that_is_no_letter_is_unverifiable() -> None:
    assert choice_verdict({"answer": "Paris"}, "\\boxed{A}").verdict == "unverifiable"
