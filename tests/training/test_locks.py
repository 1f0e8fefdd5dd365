"""Digit locks: the task, its teacher, and what is read out of trajectories."""

from __future__ import annotations

import random

import pytest

from pacore.coordination.prompt import render_synthesis
from pacore.training.miniature import locks
from pacore.training.miniature.locks import Lock, LockProblem
from pacore.training.miniature.thinking import majority, read_thought


@pytest.mark.parametrize("term", range(11))
def test_every_lock_opens_for_exactly_one_digit(term: int) -> None:
    for factor in range(1, 11):
        for rest in range(11):
            lock = Lock(term, factor, rest)
            assert [digit for digit in range(11) if lock.outcome(digit) == rest] == [lock.digit]


def test_the_template_shows_the_model_the_locks_and_the_references_and_nothing_else() -> None:
    problem = locks.make_problem(random.Random(1), 2)
    messages = ["A3 B10", "A0 B4"]
    rendered = render_synthesis(problem.text, messages)
    assert locks.encode(rendered) == locks.prompt_tokens(problem, messages)
    assert locks.decode(locks.prompt_tokens(problem)).split()[0] == "A"


def test_the_teacher_is_right_as_often_as_four_of_eleven_guesses() -> None:
    draw = random.Random(2)
    right = 0
    for _ in range(2000):
        problem = locks.make_problem(draw, 1)
        thought = read_thought(locks.teach(problem, [], draw))
        assert thought.code is not None
        right += thought.code == problem.code
    # 4/11 = 0.364, standard error 0.011.
    assert abs(right / 2000 - 4 / 11) < 0.04


def test_the_teacher_copies_from_references_and_says_so() -> None:
    draw = random.Random(3)
    problem = locks.make_problem(draw, 3)
    thoughts = [read_thought(locks.teach(problem, [(1, 2, 3)], draw)) for _ in range(300)]
    assert 3 < sum(thought.mentions for thought in thoughts) / 300 < 7
    assert not any(read_thought(locks.teach(problem, [], draw)).mentions for _ in range(50))


def test_a_lock_that_is_tried_a_fourth_time_jams() -> None:
    tried = "A +1 *1 =5 " + "try A0 +1 :1 *1 =1 =5 not " * 4 + "try A4 unchecked A4"
    assert read_thought([*locks.encode(tried), *locks.encode("</think> A4"), locks.END_TOKEN]).code is None
    two = "A +1 *1 =5 " + "try A0 +1 :1 *1 =1 =5 not " * 3 + "A0 B +1 *1 =5 try B4 +1 :5 *1 =5 =5 opens B4"
    assert read_thought([*locks.encode(two), *locks.encode("</think> A0 B4"), locks.END_TOKEN]).code == (0, 4)


@pytest.mark.parametrize("text", ["", "A3", "</think> B3", "</think> A3 A4", "</think> A3 try", "</think>"])
def test_what_states_no_code_has_none(text: str) -> None:
    assert read_thought([*locks.encode(text), locks.END_TOKEN]).code is None


def test_a_trajectory_that_was_cut_has_no_code() -> None:
    assert read_thought(locks.encode("</think> A3 B1")).code is None
    assert read_thought([*locks.encode("</think> A3 B1"), locks.END_TOKEN]).code == (3, 1)


def test_equally_frequent_codes_win_equally_often() -> None:
    draw = random.Random(4)
    found = [majority([(1,), (2,), (1,), (2,), (3,), None], draw) for _ in range(400)]
    assert 140 < found.count((1,)) < 260 and found.count((3,)) == 0
    assert majority([None], draw) is None


def test_words_are_unambiguous() -> None:
    assert len(set(locks.VOCABULARY)) == len(locks.VOCABULARY)
    problem = LockProblem((Lock(10, 10, 10),) * 3)
    longest = max(len(locks.teach(problem, [], random.Random(seed))) for seed in range(200))
    assert longest <= locks.LONGEST_TRAJECTORY
