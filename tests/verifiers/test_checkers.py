"""Checkers decide as testlib 0.9.45 does: the cases' verdicts come from running it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacore.errors import ConfigError
from pacore.verifiers.code.checkers import CHECKERS, check_output

CASES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "cases" / "checker_cases.jsonl").read_text().splitlines()
]
OUTCOMES = {"ok": "ok", "wa": "wrong", "pe": "format", "fail": "jury"}
# 64 bit here, on purpose, where the stock icmp knows 32.
WIDENED = {"2147483648": "wrong", "3000000000": "ok"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['id']}-{case['checker']}")
def test_a_case_is_decided_as_testlib_does(case: dict[str, Any]) -> None:
    expected = OUTCOMES[case["verdict"]]
    if case["checker"] == "icmp":
        expected = WIDENED.get(case["output"], expected)
    assert check_output(case["checker"], case["output"], case["answer"]).outcome == expected


@pytest.mark.parametrize("checker", CHECKERS)
@given(text=st.text(alphabet="01 .-eE+x\n\t\rCase:YESNOyes", max_size=60))
def test_what_equals_the_answer_is_never_wrong_and_nothing_crashes(checker: str, text: str) -> None:
    assert check_output(checker, text, text).outcome in ("ok", "format", "jury")
    assert check_output(checker, text, "1").outcome in ("ok", "wrong", "format", "jury")


def test_an_unknown_checker_is_told_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="did you mean 'ncmp'"):
        check_output("nmp", "", "")
