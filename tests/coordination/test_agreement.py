"""Answers are read out of messages, and equal ones are one class."""

from __future__ import annotations

import pytest

from pacore.coordination.agreement import agreement_classes, agreement_of
from pacore.verifiers.math.equivalence import MathEquivalence

MATH = MathEquivalence()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("so \\boxed{24}", "24"),
        ("\\boxed{1} no, \\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("\\boxed {7}", "7"),
        ("\\boxed{\\{1,2\\}}", "\\{1,2\\}"),
        ("The final answer is **24**.", "24"),
        ("Answer: 42\nSome more words on why\nthis is so.", "42"),
        ("24", "24"),
        ("\\boxed{}", None),
        ("Several\nlines\nof prose.", None),
        ("\\boxed{unbalanced", None),
        ("", None),
    ],
)
def test_the_final_answer_is_read(text: str, answer: str | None) -> None:
    assert MATH.answer(text) == answer


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0.5", "1/2"),
        ("1/2", "\\frac12"),
        ("\\frac{1}{2}", "\\dfrac12"),
        ("-1/2", "-\\frac{1}{2}"),
        ("1,234,567", "1234567"),
        ("24", "24.0"),
        ("$24$", "24"),
        ("**24**.", "24"),
        ("(3, 4)", "(3,4)"),
        ("\\text{Yes}", "yes"),
        ("−3", "-3"),
    ],
)
def test_equal_answers_in_other_words_are_one(one: str, other: str) -> None:
    assert MATH.equivalent(one, other)
    assert MATH.equivalent(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [("(3,4)", "34"), ("1/3", "1"), ("-1/2", "1/2"), ("12,34", "1234"), ("1/0", "2/0"), ("x", "y")],
)
def test_different_answers_are_not(one: str, other: str) -> None:
    assert not MATH.equivalent(one, other)


def test_classes_are_by_size_and_abstentions_are_in_none() -> None:
    texts = ["\\boxed{1}", "two\nlines", "\\boxed{0.5}", "\\boxed{\\frac12}"]
    classes = agreement_classes(texts, MATH)
    assert classes == [[2, 3], [0]]
    assert agreement_of(classes, len(texts)) == 0.5
    assert agreement_of([], 3) is None


def test_a_box_in_a_long_text_without_end_takes_no_time() -> None:
    assert MATH.answer("\\boxed{" * 20_000) is None
