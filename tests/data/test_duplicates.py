"""Duplicates and contamination, planted and found."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from pacore.data.record import Record
from pacore.data.steps.decontamination import Decontamination
from pacore.data.steps.duplicates import Deduplication
from pacore.data.steps.grams import TokenArrays, tokens_of
from pacore.data.steps.step import Fallen
from pacore.data.truths import MathTruth

WORDS = [f"w{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{chr(97 + n // 676)}" for n in range(2000)]


TOKENS = ["if", "$", "x", "_", "{", "12", "}", "=", "3", ".", "5", "$", ",", "求", "和", "!"]


def a_text(seed: int, length: int = 80) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=length))


def records(*texts: str, answers: Sequence[str] | None = None) -> list[Record]:
    return [
        Record(
            id=f"r{n}",
            messages=({"role": "user", "content": text},),
            truth=MathTruth(answer=answers[n] if answers else "1"),
        )
        for n, text in enumerate(texts)
    ]


def fallen(outcomes: object) -> dict[str, Fallen]:
    return {found.id: found for found in outcomes if isinstance(found, Fallen)}  # type: ignore[attr-defined]


def test_hashes_of_grams_depend_on_tokens_and_order_alone() -> None:
    texts = ["a b c d e f", "x a b c d y", "d c b a", "", "a"]
    arrays = TokenArrays([tokens_of(text) for text in texts])
    hashes, owners, places = arrays.grams(4)
    named = {(int(o), int(p)): int(h) for h, o, p in zip(hashes, owners, places, strict=True)}
    assert set(named) == {(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0)}
    assert named[0, 0] == named[1, 1]
    assert len(set(named.values())) == 6
    again = TokenArrays([tokens_of("zz zz"), tokens_of(texts[0])]).grams(4)[0]
    assert int(again[0]) == named[0, 0]
    assert len({int(value) for value in arrays.whole()}) == 5


def test_tokens_are_words_numbers_signs_and_single_chinese_characters() -> None:
    assert tokens_of("If $x_{12}=3.5$, 求和!") == TOKENS
    assert tokens_of("x_{12}", mask_digits=True) == ["x", "_", "{", "0", "}"]


def test_the_first_of_equal_problems_stays() -> None:
    text = a_text(1)
    found = fallen(Deduplication()(records(text, a_text(2), f"  {text.upper()} ")))
    assert set(found) == {"r2"}
    assert (found["r2"].reason, found["r2"].detail) == ("exact_duplicate", "of 'r0'")


@pytest.mark.parametrize(("changed", "near"), [(1, True), (2, True), (30, False)])
def test_near_duplicates_are_those_that_share_most_grams(changed: int, near: bool) -> None:
    words = a_text(3, 120).split()
    for place in range(changed):
        words[place * 4] = f"other{chr(97 + place)}"
    found = fallen(Deduplication()(records(a_text(3, 120), " ".join(words))))
    assert bool(found) == near
    if near:
        assert found["r1"].reason == "near_duplicate"


def test_only_exact_duplicates_fall_where_near_ones_are_not_asked_for() -> None:
    text = a_text(4)
    assert set(fallen(Deduplication(near=None)(records(text, f"{text} more", text)))) == {"r2"}


def test_other_numbers_make_another_problem_unless_told() -> None:
    base = a_text(5) + " with {} apples"
    texts = (base.format(12), base.format(13))
    assert not fallen(Deduplication()(records(*texts)))
    assert set(fallen(Deduplication(same_numbers=False)(records(*texts)))) == {"r1"}


def test_answers_that_differ_are_told() -> None:
    text = a_text(6)
    found = fallen(Deduplication()(records(text, text, answers=["1", "2"])))
    assert "answers differ" in found["r1"].detail


def test_short_and_empty_questions_are_like_no_other() -> None:
    assert not fallen(Deduplication()(records("one", "two", "one two three", "1 + 1", "1 + 2")))


def test_many_processes_find_what_one_finds() -> None:
    texts = [a_text(n, 40) for n in range(3000)]
    texts += [text + " more" for text in texts[:300]]
    one = fallen(Deduplication(processes=1)(records(*texts)))
    two = fallen(Deduplication(processes=2)(records(*texts)))
    assert one == two
    assert set(one) == {f"r{n}" for n in range(3000, 3300)}


def test_planted_near_duplicates_are_found_among_many() -> None:
    rng = random.Random(7)
    texts = [a_text(n, 90) for n in range(2000)]
    planted = []
    for n in range(300):
        words = texts[n].split()
        words[rng.randrange(len(words))] = "changed"
        planted.append(" ".join(words))
    found = fallen(Deduplication()(records(*texts, *planted)))
    assert not any(int(name[1:]) < 2000 for name in found)
    assert len(found) >= 295


BENCHMARK = [
    a_text(100, 100) + " equals 17",
    a_text(101, 30),
    "What is 2 + 2?",
    "",
]


def contaminated(*texts: str) -> dict[str, Fallen]:
    return fallen(Decontamination(records(*BENCHMARK))(records(*texts)))


def test_the_same_but_for_numbers_falls() -> None:
    found = contaminated(BENCHMARK[0].replace("17", "23"), "What is 7 + 9?", a_text(200))
    assert {name: fall.reason for name, fall in found.items()} == {
        "r0": "same_but_for_numbers",
        "r1": "same_but_for_numbers",
    }
    assert "'r0'" in found["r0"].detail


def test_a_passage_of_64_tokens_in_common_falls_and_one_of_63_does_not() -> None:
    words = BENCHMARK[0].split()
    long, short = " ".join(words[10:74]), " ".join(words[10:73])
    found = contaminated(f"{a_text(201)} {long} {a_text(202)}", f"{a_text(203)} {short} {a_text(204)}")
    assert {name: fall.reason for name, fall in found.items()} == {"r0": "shared_passage"}
    assert words[10] in found["r0"].detail


def test_a_short_statement_contained_whole_falls_and_its_beginning_alone_does_not() -> None:
    words = BENCHMARK[1].split()
    found = contaminated(
        f"Consider this: {BENCHMARK[1]} Now answer.", " ".join(words[:29]) + " something else"
    )
    assert {name: fall.reason for name, fall in found.items()} == {"r0": "contains_statement"}


def test_very_short_statements_and_empty_ones_contaminate_only_themselves() -> None:
    assert not contaminated("He asked: What is 2 + 2? Nobody knew.", "", "What is it?")
    assert contaminated("what is 3 + 4 ?")


def test_the_order_is_kept() -> None:
    texts = [a_text(n) for n in range(50)] + [BENCHMARK[0]]
    outcomes = list(Decontamination(records(*BENCHMARK))(records(*texts)))
    assert [found.id for found in outcomes] == [f"r{n}" for n in range(51)]
