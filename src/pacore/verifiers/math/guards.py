"""What never reaches a symbolic engine: texts that would hang it, fill the memory, or run code."""

from __future__ import annotations

import re

_MAX_LENGTH = 600
_MAX_DEPTH = 12
_MAX_DIGITS = 200
_CODE = re.compile(r"__|\b(?:import|exec|eval|lambda|getattr|open|system|subclasses)\b|[\";@#&]|:=")
_HEAVY = re.compile(r"\\(?:sum|prod|int|lim|iint|oint)(?![a-zA-Z])|\\ldots|\\(?:bmod|mod|pmod)(?![a-zA-Z])")
# The engine drops words, and glues digits together that blanks keep apart.
_WORDS = re.compile(r"\\text(?![a-zA-Z])|(?<![_^\d])\d+\s+\d")
_EXPONENT = re.compile(r"(?:\^|\*\*)\s*[{(]?\s*-?(\d+)")
_DIGITS = re.compile(r"\d+")


def refusal(text: str) -> str | None:
    """Why ``text`` is not given to a symbolic engine, or ``None`` where it may be."""
    if len(text) > _MAX_LENGTH:
        return f"longer than {_MAX_LENGTH} characters"
    if _CODE.search(text):
        return "it looks like code rather than mathematics"
    if _HEAVY.search(text):
        return "sums, products, integrals, limits and dots are not compared"
    if _WORDS.search(text):
        return "words, or digits apart, in an expression"
    if _depth(text) > _MAX_DEPTH:
        return f"nested deeper than {_MAX_DEPTH}"
    if _has_tower(text):
        return "a power of a power"
    if any(len(digits) > 4 or int(digits) > 400 for digits in _EXPONENT.findall(text)):
        return "an exponent above 400"
    if any(len(digits) > _MAX_DIGITS for digits in _DIGITS.findall(text)):
        return f"a number of more than {_MAX_DIGITS} digits"
    return None


def _depth(text: str) -> int:
    depth = deepest = 0
    for letter in text:
        if letter in "{([":
            depth += 1
            deepest = max(deepest, depth)
        elif letter in "})]":
            depth -= 1
    return deepest


def _has_tower(text: str) -> bool:
    """Whether an exponent holds a power itself: ``9^{9^9}``, ``1^(2^3)``, ``9^9^9``."""
    place = 0
    while (place := text.find("^", place)) >= 0:
        start = place + 1
        while start < len(text) and text[start] == " ":
            start += 1
        if start < len(text) and text[start] in "{(":
            end = _group_end(text, start)
            if "^" in text[start:end] or text[end : end + 2].lstrip().startswith("^"):
                return True
        elif re.match(r"-?[\w.]+\s*\^", text[start:]):
            return True
        place += 1
    return False


def _group_end(text: str, start: int) -> int:
    depth = 0
    for place in range(start, len(text)):
        if text[place] in "{(":
            depth += 1
        elif text[place] in "})":
            depth -= 1
            if depth == 0:
                return place + 1
    return len(text)
