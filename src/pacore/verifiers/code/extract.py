"""Finding the program in a text: the last fenced block after the thinking."""

from __future__ import annotations

import re
from typing import NamedTuple

from pacore.errors import ConfigError
from pacore.verifiers.code.truth import read_language
from pacore.verifiers.sandbox.program import Language

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+#-]*)[^\n`]*$", re.MULTILINE)
_THINKING_ENDS = "</think>"


class FoundCode(NamedTuple):
    """A program as it stands in an answer."""

    source: str
    language: Language


def extract_code(text: str) -> FoundCode | None:
    """The last closed block of a language that is run here; unnamed languages are Python.

    Thinking that never closed holds no answer; text without a fence is none.
    """
    if "<think>" in text and _THINKING_ENDS not in text:
        return None
    answer = text.rsplit(_THINKING_ENDS, 1)[-1]
    found = None
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(answer):
        if opening is None:
            opening = fence
        elif fence[1].startswith(opening[1]) and not fence[2]:
            found = _block(answer, opening, fence) or found
            opening = None
    return found


def _block(answer: str, opening: re.Match[str], closing: re.Match[str]) -> FoundCode | None:
    source = answer[opening.end() + 1 : closing.start()]
    try:
        language = read_language(opening[2] or "python")
    except ConfigError:
        return None
    return FoundCode(source, language) if source.strip() else None
