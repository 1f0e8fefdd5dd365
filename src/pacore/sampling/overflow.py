"""Reading "this does not fit my context window" in the words of each server.

Wordings of vLLM, SGLang, llama.cpp and OpenAI as their sources and users' reports show them; servers
say it as a 400, some as a 413 or a 422, and the words change between releases, so the patterns look
for the numbers around the nouns rather than for whole sentences.
"""

from __future__ import annotations

import re
from typing import Any

from pacore.errors import ContextOverflowError

_SIGNS = re.compile(
    r"context[ _]length|context[ _]size|context[ _]window|maximum model length|max_model_len"
    r"|exceed_context_size|maximum prompt length|tokens exceed the configured limit"
    r"|too large to process",
    re.IGNORECASE,
)

_WINDOW = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"context (?:length|size|window)(?: of| is)?(?: only)?\s*\(?(\d+)",  # all four
        r"maximum model length of (\d+)",  # vLLM
        r"configured limit of (\d+)",  # OpenAI
        r"(\d+) (?:token )?maximum context",
        r"maximum prompt length is (\d+)",
    )
]

_PROMPT = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\((\d+) in the messages",  # vLLM, OpenAI
        r"prompt contains (?:at least )?(\d+) input tokens",  # vLLM
        r"request has (\d+) input tokens",  # vLLM
        r"passed (\d+) input tokens",  # vLLM
        r"prompt \(length (\d+)\)",  # vLLM
        r"(\d+) tokens from the input messages",  # SGLang
        r"input \((\d+) tokens\)",  # SGLang
        r"request \((\d+) tokens\)",  # llama.cpp
        r"messages resulted in (\d+) tokens",  # OpenAI
        r"(?:request|prompt) contains (\d+) tokens",
    )
]


def read_overflow(status: int, message: str, error: Any) -> ContextOverflowError | None:
    """The overflow that an error body tells of, or ``None`` where it tells of something else.

    ``error`` is the decoded error object; llama.cpp puts the figures there (``n_ctx``,
    ``n_prompt_tokens``).
    """
    fields = error if isinstance(error, dict) else {}
    code = str(fields.get("code") or "") + " " + str(fields.get("type") or "")
    if not _SIGNS.search(message) and not _SIGNS.search(code):
        return None
    return ContextOverflowError(
        message,
        status=status,
        window=_number(fields.get("n_ctx")) or _first(_WINDOW, message),
        prompt_tokens=_number(fields.get("n_prompt_tokens")) or _first(_PROMPT, message),
    )


def _first(patterns: list[re.Pattern[str]], text: str) -> int | None:
    for pattern in patterns:
        if match := pattern.search(text):
            return int(match.group(1))
    return None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
