"""Rules out what cannot be verified by a single final answer: images, several parts or answers, prose."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from pacore.data.record import Record
from pacore.data.steps.step import Fallen
from pacore.data.truths import AssertTruth, ChoiceTruth, IntegerTruth, MathTruth, ProgramTruth
from pacore.verifiers.math.parse import parse_answer
from pacore.verifiers.math.values import Collection, Expression, Words

Rule = Callable[[Record], str | None]
"""Says what is wrong with a record, or nothing."""

_IMAGE = re.compile(
    r"!\[[^\]]*\]\(|<img\b|\\includegraphics|\[asy\]|\\begin\{(?:asy|tikzpicture)\}|data:image/|"
    r"\b(?:in|from|see|using) the (?:following )?(?:figure|diagram|picture|graph|image)\b|"
    r"\b(?:figure|diagram|picture|graph) (?:below|above|shown)\b|如图",
    re.IGNORECASE,
)
_LINK = re.compile(r"https?://|www\.[a-z0-9-]+\.|\]\(\s*\w+:|<a\s", re.IGNORECASE)
_PART = re.compile(
    r"(?:^|\n|\s)\(?(?:part\s+)?(?P<mark>[a-h]|[1-9]|i{1,3}|iv|v)\s?[).:]\s+(?=\S)", re.IGNORECASE
)
_ASKS = re.compile(
    r"\?|\b(?:find|determine|compute|calculate|evaluate|prove|show|how many|what|solve|give|write|which)\b",
    re.IGNORECASE,
)
_PARTS_IN_ORDER = (("a", "b"), ("1", "2"), ("i", "ii"))
_ASKED_AGAIN = re.compile(
    r"\?[^?]*\b(?:also|moreover|furthermore|in addition|what is|find|determine)\b[^?]*\?", re.IGNORECASE
)
_PROVE = re.compile(
    r"(?:^|[.!?:;]\s+|\n\s*|\bthen\s+|\band\s+|\))\s*"
    r"(?:prove|show(?! your)|verify|explain|describe|discuss|justify|demonstrate|"
    r"(?:sketch|draw) the graph|construct an? example|give an? example)\b|证明",
    re.IGNORECASE,
)
_SEVERAL = re.compile(r"\\text\{\s*(?:and|or)\s*\}|\b(?:and|or)\b|;|(?:\\boxed.*){2}|和|或", re.IGNORECASE)
_MOST_WORDS = 6


def has_image(record: Record) -> str | None:
    """An image, or words that point at one; content parts that are no text as well."""
    for message in record.messages:
        content = message.get("content")
        if isinstance(content, list) and any(part.get("type") != "text" for part in content):
            return "a part of a message is no text"
    return _shown(_IMAGE, record.question)


def has_link(record: Record) -> str | None:
    """An address to look something up at."""
    return _shown(_LINK, record.question)


def has_parts(record: Record) -> str | None:
    """Questions (a) and (b), 1. and 2., or one question after another. Numbered conditions are no parts."""
    text = record.question
    found = list(_PART.finditer(text))
    ends = [*(match.start() for match in found), len(text)][1:]
    asking = [
        match["mark"].lower()
        for match, end in zip(found, ends, strict=True)
        if _ASKS.search(text[match.end() : end])
    ]
    for first, second in _PARTS_IN_ORDER:
        if first in asking and second in asking[asking.index(first) :]:
            return f"parts {first} and {second}"
    return _shown(_ASKED_AGAIN, text)


def has_several_answers(record: Record) -> str | None:
    """A truth of several values that are no tuple, interval or set: "3 and 5", "2; 7", "1, 2"."""
    truth = record.truth
    if not isinstance(truth, MathTruth):
        return None
    if match := _SEVERAL.search(truth.answer):
        return match.group()
    value = parse_answer(truth.answer)
    if isinstance(value, Collection) and not value.brackets:
        return f"{len(value.items)} values"
    return None


def is_open_ended(record: Record) -> str | None:
    """A proof, an explanation, or an answer in prose."""
    if found := _shown(_PROVE, record.question):
        return found
    truth = record.truth
    if isinstance(truth, MathTruth):
        value = parse_answer(truth.answer)
        words = len(re.findall(r"[^\W\d_]{2,}", truth.answer))
        if isinstance(value, (Words, Expression)) and words > _MOST_WORDS and "\\" not in truth.answer:
            return f"an answer of {words} words"
    return None


def has_no_answer(record: Record) -> str | None:
    """Neither an answer nor tests."""
    truth = record.truth
    if isinstance(truth, (MathTruth, IntegerTruth)):
        return None if truth.answer.strip() else "the answer is empty"
    if isinstance(truth, (ProgramTruth, AssertTruth, ChoiceTruth)):
        return None
    return "no answer that a rule could verify"


MATH_RULES: Mapping[str, Rule] = {
    "no_answer": has_no_answer,
    "image": has_image,
    "link": has_link,
    "several_parts": has_parts,
    "several_answers": has_several_answers,
    "open_ended": is_open_ended,
}
CODE_RULES: Mapping[str, Rule] = {"no_answer": has_no_answer, "image": has_image}
LEAST_TESTS = 5


class RuleFilter:
    """Leaves out records that break a rule; ``without`` names rules not to apply.

    Of code, statements often have links, notes and several outputs, so fewer rules apply, but at least
    ``least_tests`` tests are wanted.
    """

    def __init__(self, *, without: Iterable[str] = (), least_tests: int = LEAST_TESTS) -> None:
        self._without = frozenset(without)
        self._least_tests = least_tests

    def __call__(self, records: Iterable[Record]) -> Iterator[Record | Fallen]:
        """Each record, or the first rule that it breaks."""
        for record in records:
            yield self._broken(record) or record

    def _broken(self, record: Record) -> Fallen | None:
        for name, rule in (CODE_RULES if record.is_code else MATH_RULES).items():
            if name not in self._without and (found := rule(record)) is not None:
                return Fallen(id=record.id, reason=name, detail=found)
        truth = record.truth
        if isinstance(truth, ProgramTruth) and len(truth.tests) < self._least_tests:
            detail = f"{len(truth.tests)} tests, {self._least_tests} wanted"
            return Fallen(id=record.id, reason="few_tests", detail=detail)
        return None


def _shown(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return None if match is None else " ".join(match.group().split())[:80]
