"""The record: one problem with its typed truth, its message pool, and where it comes from.

Readers of every format make it, writers of every format take it; keys that a format does not know travel
in ``extra``, so nothing is lost on the way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from pacore.data.truths import CodeTruths, OpaqueTruth, Truth, truth_value
from pacore.problems import task_index
from pacore.types import ChatMessage, Problem


class Response(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cached answer: one message of a pool. ``reward`` is in [0, 1] where it was verified."""

    content: str
    reasoning: str = ""
    reward: float | None = None
    extra: dict[str, Any] = {}


class Record(Struct, frozen=True, kw_only=True):
    """A problem as data sets hold it.

    ``pool`` are cached responses of the starting checkpoint; ``source`` names the data set, ``origin`` where
    it was got from (an address, a file with its line).
    """

    id: str
    messages: tuple[ChatMessage, ...]
    truth: Truth = OpaqueTruth(value=None)
    pool: tuple[Response, ...] = ()
    source: str = ""
    license: str = ""
    origin: str = ""
    extra: dict[str, Any] = {}

    @property
    def question(self) -> str:
        """The text that asks: of the last user message, its text parts joined by newlines."""
        index = task_index(self.messages)
        content = None if index is None else self.messages[index].get("content")
        if isinstance(content, list):
            return "\n".join(part.get("text") or "" for part in content if isinstance(part, dict))
        return content or ""

    @property
    def is_code(self) -> bool:
        """Whether the truth is tests of a program."""
        return isinstance(self.truth, CodeTruths)

    def problem(self) -> Problem:
        """The record as the coordinator and the verifiers take it."""
        return Problem(id=self.id, messages=self.messages, ground_truth=truth_value(self.truth))


def identity_of(messages: Sequence[ChatMessage]) -> str:
    """An id for a record that brings none: a hash of its messages, the same in every file."""
    encoded = msgspec.json.encode(messages, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=6).hexdigest()
