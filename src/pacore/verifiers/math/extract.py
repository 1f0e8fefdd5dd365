"""Reading the final answer out of a model's text, or saying why there is none."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

ExtractReason = Literal[
    "boxed", "phrase", "whole", "no_answer", "unclosed_thinking", "unterminated_box", "hedged"
]

_BOX = re.compile(r"\\f?boxed\s*(?P<brace>\{)?")
# What may stand between two boxes that are parts of one answer.
_LINK = re.compile(
    r"(?:\s|[$,;、，]|\\[()\[\]]|\\text\{\s*(?:and|or)\s*\}|\b(?:and|or)\b|和|或|~|\\quad|\\,)*"
)
_PHRASE = re.compile(
    r"(?:(?:the\s+)?(?:final\s+|correct\s+)?answer\s*(?:\*\*)?\s*(?:is|:|=|：)"
    r"|(?:最终)?答案\s*(?:是|为|:|：))\s*(?P<answer>[^\n]+)",
    re.IGNORECASE,
)
_HEDGE = re.compile(
    r"\b(?:or\s+(?:maybe|perhaps|possibly)|maybe|perhaps|possibly|not\s+sure|either\b.*\bor)\b|或许|可能",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[^\d\s])\.\s|(?<=\d)\.\s+(?=[A-Z])|[。]")
_MAX_WHOLE = 200
_MAX_BOXES = 64


class Extracted(NamedTuple):
    """The answer's text and where it stood; ``answer`` is ``None`` where there is none."""

    answer: str | None
    reason: ExtractReason


def extract_answer(text: str, *, require_box: bool = False) -> Extracted:
    """The final answer in ``text``: of what follows the last ``</think>``, the last non-empty box.

    Neighbouring boxes are one answer only where "and", "or" or a comma links them. Without a box an
    anchored phrase ("the answer is …") counts, or a text of one short line, unless ``require_box``, as
    in training, forbids it. A hedged answer ("42, or maybe 43") is none.
    """
    conclusion = _after_thinking(text)
    if conclusion is None:
        return Extracted(None, "unclosed_thinking")
    boxes, unterminated = _boxes(conclusion)
    if boxes:
        return _checked(_linked(boxes, conclusion), "boxed")
    if unterminated:
        return Extracted(None, "unterminated_box")
    if require_box:
        return Extracted(None, "no_answer")
    phrases = list(_PHRASE.finditer(conclusion))
    if phrases:
        return _checked(_first_sentence(phrases[-1]["answer"]), "phrase")
    line = conclusion.strip()
    if line and "\n" not in line and len(line) <= _MAX_WHOLE:
        return _checked(line, "whole")
    return Extracted(None, "no_answer")


def _after_thinking(text: str) -> str | None:
    _, closed, after = text.rpartition("</think>")
    if closed:
        return after
    return None if "<think>" in text else text


def _boxes(text: str) -> tuple[list[tuple[int, int, str]], bool]:
    """The last boxes as (start, end, content), outermost only, and whether one never ends."""
    found: list[tuple[int, int, str]] = []
    unterminated = False
    place = 0
    starts = list(_BOX.finditer(text))[-_MAX_BOXES:]
    for match in starts:
        if match.start() < place:
            continue
        if match["brace"]:
            end = closing_brace(text, match.end() - 1)
            if end is None:
                unterminated = True
                continue
            content = text[match.end() : end]
            place = end + 1
        else:
            token = re.match(r"[^\s$\\]+", text[match.end() :])
            content = token[0] if token else ""
            place = match.end() + len(content)
        if content.strip():
            found.append((match.start(), place, content))
    return found, unterminated


def _linked(boxes: list[tuple[int, int, str]], text: str) -> str:
    parts = [boxes[-1][2]]
    for (_, end, content), (start, _, _) in zip(reversed(boxes[:-1]), reversed(boxes[1:]), strict=True):
        between = text[end:start]
        link = between.strip(" \t\n$")
        if not link or len(between) > 40 or not _LINK.fullmatch(between):
            break
        parts.insert(0, content)
    return ", ".join(dict.fromkeys(part.strip() for part in parts))


def _checked(answer: str, reason: ExtractReason) -> Extracted:
    while (inner := _BOX.match(answer.strip())) and inner["brace"]:
        stripped = answer.strip()
        end = closing_brace(stripped, inner.end() - 1)
        if end != len(stripped) - 1:
            break
        answer = stripped[inner.end() : end]
    if _HEDGE.search(answer):
        return Extracted(None, "hedged")
    answer = answer.strip()
    return Extracted(answer, reason) if answer else Extracted(None, "no_answer")


def _first_sentence(text: str) -> str:
    return _SENTENCE_END.split(text, maxsplit=1)[0].strip().rstrip(".").strip("*").strip()


def closing_brace(text: str, start: int) -> int | None:
    """Index of the brace that closes the one at ``start``; escaped braces do not count."""
    depth = 0
    place = start
    while place < len(text):
        letter = text[place]
        if letter == "\\":
            place += 2
            continue
        if letter == "{":
            depth += 1
        elif letter == "}":
            depth -= 1
            if depth == 0:
                return place
        place += 1
    return None
