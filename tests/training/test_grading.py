"""Rewards from texts: the conclusion is held against the truth, from any thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from pacore.data.truths import ChoiceTruth, MathTruth, OpaqueTruth
from pacore.training.grading import Grader


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(workers=2) as made:
        yield made


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("<think>Reference 1 says 7.</think>The answer is 8.", 1.0),
        ("The answer is $\\frac{16}{2}$.", 1.0),
        ("<think>It is 8.", 0.0),
        ("<think>8</think>", 0.0),
        ("<think>8</think>\nThe answer is 9.", 0.0),
        ("", 0.0),
    ],
)
def test_the_conclusion_alone_is_graded(grader: Grader, text: str, reward: float) -> None:
    assert grader.grade(MathTruth(answer="8"), text).reward == reward


def test_a_text_without_tags_never_closed_thinking_that_the_template_opened() -> None:
    with Grader(workers=1, implicit_thinking=True) as grader:
        assert grader.conclusion("It is 8.") is None
        assert grader.conclusion("hm</think>It is 8.") == "It is 8."


def test_what_no_rule_can_decide_has_no_reward(grader: Grader) -> None:
    assert grader.grade(OpaqueTruth(value={"anything": 1}), "8").reward is None


def test_truths_come_in_any_shape_of_data_sets(grader: Grader) -> None:
    assert grader.grade("8", "The answer is 8.").reward == 1.0
    assert grader.grade('{"type": "choice", "answer": "B"}', "The answer is B.").reward == 1.0
    assert grader.grade(ChoiceTruth(answer="B"), "The answer is A.").reward == 0.0


def test_mentions_of_references_are_counted(grader: Grader) -> None:
    assert grader.grade("8", "<think>Ref 3 and reference 2 agree</think>8").mentions == 2


def test_symbolic_comparison_works_in_every_worker_thread(grader: Grader) -> None:
    found: list[float | None] = []

    def work() -> None:
        for _ in range(3):
            found.append(grader.grade("\\frac{\\sqrt{8}}{2}", "The answer is $\\sqrt{2}$.").reward)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1.0] * 12


def test_many_are_graded_in_their_order(grader: Grader) -> None:
    pairs = [(MathTruth(answer=str(number % 3)), f"The answer is {number % 2}.") for number in range(24)]
    found = [grade.reward for grade in grader.grade_all(pairs)]
    assert found == [float(number % 3 == number % 2) for number in range(24)]
