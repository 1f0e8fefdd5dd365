"""Where an endpoint leaves the reasoning in the text: telling it from the conclusion by its tags."""

from __future__ import annotations

import re
from typing import NamedTuple

OPEN = "<think>"
CLOSE = "</think>"
_CLOSING_LINE = re.compile(r"(?:^|\n)[ \t]*</think>[ \t]*(?:\n|$)")


class Split(NamedTuple):
    """A text parted at its thinking tags. ``closed`` is false where thinking began and never ended."""

    reasoning: str
    conclusion: str
    closed: bool


def split_thinking(text: str, *, implicit: bool = False) -> Split:
    """Part ``text`` at the LAST ``</think>``, as the method does.

    ``implicit`` says that this model's thinking begins without a tag (its chat template writes it),
    so that a text without any tag never closed its thinking.
    """
    opens = text.lstrip().startswith(OPEN)
    before, tag, after = text.rpartition(CLOSE)
    if tag:
        return Split(before.lstrip().removeprefix(OPEN).strip("\n"), after.lstrip("\n"), True)
    if opens or implicit:
        return Split(text.lstrip().removeprefix(OPEN).strip("\n"), "", False)
    return Split("", text, True)


def opens_in_template(text: str) -> bool:
    """Whether thinking began without a tag, in the chat template: its end stands on a line of its own.

    A text that merely writes about the tag, in code or in a sentence, does not look like that.
    """
    return OPEN not in text and text.count(CLOSE) == 1 and _CLOSING_LINE.search(text) is not None


class ThinkingStream:
    """Sorts streamed text of such an endpoint into reasoning and conclusion while it comes.

    For live display only: the finished trajectory is parted by :func:`split_thinking`.
    """

    def __init__(self, *, implicit: bool) -> None:
        self._inside = implicit
        self._decided = implicit
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        """Take more text; return the (conclusion, reasoning) it adds."""
        text = self._held + text
        self._held = ""
        if not self._decided:
            start = text.lstrip()
            if len(start) < len(OPEN) and OPEN.startswith(start):
                self._held = text
                return "", ""
            self._decided = True
            self._inside = start.startswith(OPEN)
            text = start.removeprefix(OPEN) if self._inside else text
        if not self._inside:
            return text, ""
        before, tag, after = text.partition(CLOSE)
        if tag:
            self._inside = False
            return after, before
        keep = _tag_prefix_at_end(text)
        self._held = text[len(text) - keep :]
        return "", text[: len(text) - keep]


def _tag_prefix_at_end(text: str) -> int:
    for length in range(min(len(CLOSE) - 1, len(text)), 0, -1):
        if text.endswith(CLOSE[:length]):
            return length
    return 0
