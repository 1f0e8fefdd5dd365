"""Which messages say the same: answers read out of them, and classes of equivalent ones.

Votes, the agreement stop and the agreement of a result rest on an :class:`Equivalence`. The one here
knows numbers and text; a mathematical verifier can take its place.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)")
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_SLASH = re.compile(r"([+-]?\d+)/(\d+)")
_FRAC = re.compile(r"([+-]?)\\[dt]?frac(?:\{([+-]?\d+)\}|(\d))(?:\{([+-]?\d+)\}|(\d))")
_PHRASE = re.compile(r"(?:final\s+answer|answer)\s*(?:is|:|=)\s*(?P<answer>[^\n]+)", re.IGNORECASE)
_MARKUP = re.compile(r"\\(?:left|right|displaystyle|,|;|!|:| )|\$|\\[()\[\]]|\*\*|\s+")
_MAX_ANSWER = 2_000
_MAX_BOXES = 50


class Equivalence(Protocol):
    """Reads answers out of messages and says which are the same."""

    def answer(self, text: str) -> str | None:
        """The final answer in a message, or ``None`` where there is none to be read."""

    def equivalent(self, one: str, other: str) -> bool:
        """Whether two answers are the same. Reflexive and symmetric."""


class PlainEquivalence:
    """Equal numbers (0.5, 1/2 and \\frac12 are one answer), or equal text up to markup and case.

    An answer is the last ``\\boxed{…}``, else what follows the last "answer is"; a message of one short
    line is its own answer. Anything else has none: better no vote than a wrong one.
    """

    def answer(self, text: str) -> str | None:
        """The final answer in ``text``."""
        boxed = last_boxed(text)
        if boxed is not None:
            return boxed.strip() or None
        phrases = list(_PHRASE.finditer(text))
        if phrases:
            return phrases[-1]["answer"].strip().rstrip(".").strip() or None
        line = text.strip()
        return line if line and "\n" not in line and len(line) <= 200 else None

    def equivalent(self, one: str, other: str) -> bool:
        """Whether the two are equal as numbers, or else as normalised text."""
        if one == other:
            return True
        left, right = _normalised(one), _normalised(other)
        if left == right:
            return True
        first, second = _exact(left), _exact(right)
        return first is not None and first == second


def last_boxed(text: str) -> str | None:
    """The content of the last ``\\boxed{…}`` with balanced braces, or ``None``."""
    place = len(text)
    for _ in range(_MAX_BOXES):
        place = text.rfind("\\boxed", 0, place)
        if place < 0:
            break
        start = text.find("{", place)
        if start >= 0 and not text[place + len("\\boxed") : start].strip():
            end = _closing_brace(text, start)
            if end is not None:
                return text[start + 1 : end]
    return None


def agreement_classes(texts: Sequence[str], equivalence: Equivalence) -> list[list[int]]:
    """Indices of ``texts`` grouped by equivalent answer, the largest class first.

    Texts without an answer are in no class. Equally large classes stand in the order of their first
    member.
    """
    classes: list[tuple[str, list[int]]] = []
    for index, text in enumerate(texts):
        answer = equivalence.answer(text)
        if answer is None:
            continue
        for known, members in classes:
            if equivalence.equivalent(known, answer):
                members.append(index)
                break
        else:
            classes.append((answer, [index]))
    return sorted((members for _, members in classes), key=len, reverse=True)


def agreement_of(classes: Sequence[Sequence[int]], messages: int) -> float | None:
    """The share of ``messages`` that are in the largest class; ``None`` where no answer was read."""
    return len(classes[0]) / messages if classes else None


def _closing_brace(text: str, start: int) -> int | None:
    depth = 0
    for place in range(start, min(len(text), start + _MAX_ANSWER)):
        if text[place] == "\\":
            continue
        if text[place] == "{" and text[place - 1] != "\\":
            depth += 1
        elif text[place] == "}" and text[place - 1] != "\\":
            depth -= 1
            if depth == 0:
                return place
    return None


def _normalised(answer: str) -> str:
    text = unicodedata.normalize("NFKC", answer[:_MAX_ANSWER]).replace("−", "-").replace("–", "-")
    text = _MARKUP.sub("", text).rstrip(".").casefold()
    while text.startswith("\\text{") and text.endswith("}"):
        text = text[6:-1]
    return text


def _exact(text: str) -> Fraction | None:
    if _GROUPED.fullmatch(text):
        text = text.replace(",", "")
    if _NUMBER.fullmatch(text):
        return Fraction(text)
    if (match := _SLASH.fullmatch(text)) and int(match[2]):
        return Fraction(int(match[1]), int(match[2]))
    if match := _FRAC.fullmatch(text):
        over, under = int(match[2] or match[3]), int(match[4] or match[5])
        if under:
            return Fraction(over, under) * (-1 if match[1] == "-" else 1)
    return None
