"""Multiple choice: a letter, or the text of a choice, against the right letter."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pacore.types import Verdict
from pacore.verifiers.math.compare import compare_values
from pacore.verifiers.math.extract import extract_answer
from pacore.verifiers.math.parse import parse_answer

# Around a letter: brackets, dollars, stars, and LaTeX's \text{…}.
_BEFORE, _AFTER = r"^(?:[\s(\[$*{]|\\text\w*)*", r"\s*(?:[)\]}$*.:,]|$)"
_LETTER = re.compile(f"{_BEFORE}([A-Za-z]){_AFTER}")
_WORD = re.compile(r"^\s*(?:option|choice|answer)\s+", re.IGNORECASE)


def choice_verdict(truth: Mapping[str, Any], text: str) -> Verdict:
    """The verdict on the final answer of ``text``: "B", "(B)", "B. Paris", or the text of choice B itself."""
    right = truth.get("answer")
    choices = truth.get("choices") or ()
    if not isinstance(right, str) or not re.fullmatch(r"[A-Za-z]", right.strip()):
        return Verdict(verdict="unverifiable", reason=f"bad_gold: {right!r:.40} is no letter of a choice")
    found = extract_answer(text)
    if found.answer is None:
        return Verdict(verdict="incorrect", reason=found.reason)
    evidence = {"extracted": found.answer[:200], "found_by": found.reason}
    letter = _letter(found.answer, choices)
    if letter is None:
        return Verdict(verdict="incorrect", reason="no_choice: it names none", evidence=evidence)
    if letter == right.strip().upper():
        return Verdict(verdict="correct", reward=1.0, reason="equal", evidence=evidence)
    return Verdict(verdict="incorrect", reason="different", evidence=evidence)


def _letter(answer: str, choices: Sequence[str]) -> str | None:
    answer = _WORD.sub("", answer)
    same = [chr(ord("A") + place) for place, choice in enumerate(choices) if _same(choice, answer)]
    if len(same) == 1:
        return same[0]
    match = _LETTER.match(answer)
    return match[1].upper() if match else None


def _same(choice: str, answer: str) -> bool:
    if choice.strip().casefold() == answer.strip().casefold():
        return True
    try:
        return compare_values(parse_answer(choice), parse_answer(answer)) is True
    except RecursionError:
        return False
