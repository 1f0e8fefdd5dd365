"""Reading problems: a question, a chat, or a record of a problem file, into a Problem."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from pacore.errors import ProblemError
from pacore.types import ChatMessage, Problem

ProblemLike: TypeAlias = str | Problem | Sequence[ChatMessage] | Mapping[str, Any]
"""What the Python API takes as a problem: a question, a chat, a record, or a Problem."""

_CHAT_KEYS = ("messages", "conversation")
_QUESTION_KEYS = ("question", "problem", "prompt")
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def read_problem(source: ProblemLike, *, place: str = "problem") -> Problem:
    """Make a Problem of ``source``; ``place`` names it in errors.

    A record has ``messages`` (or ``conversation``), or one of ``question``, ``problem``, ``prompt``.
    Without an ``id`` it is named by a hash of its messages, so that the same question has the same
    seeds in every run.

    Raises ProblemError where no such thing is there.
    """
    if isinstance(source, Problem):
        _check_messages(source.messages, place)
        return source
    if isinstance(source, str):
        return _from_record({"question": source}, place)
    if isinstance(source, Mapping):
        return _from_record(source, place)
    if isinstance(source, Sequence):
        return _from_record({"messages": list(source)}, place)
    raise ProblemError(f"{place}: a question, a chat or a record is wanted, not {_shown(source)}")


def read_problem_lines(path: Path) -> Iterator[Problem]:
    """Yield the problems of a JSONL file one at a time; blank lines are skipped.

    Raises ProblemError with the line's number for a line that is no problem or repeats an id.
    """
    seen: set[str] = set()
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")  # noqa: PLW2901 - the mark is no part of it
            if not line.strip():
                continue
            place = f"{path}:{number}"
            try:
                record = msgspec.json.decode(line)
            except msgspec.DecodeError as error:
                raise ProblemError(f"{place}: not JSON ({error}): {_shown(line)}") from error
            if not isinstance(record, dict):
                raise ProblemError(f"{place}: a problem is a JSON object, not {_shown(line)}")
            problem = _from_record(record, place)
            if problem.id in seen:
                raise ProblemError(
                    f"{place}: the id {problem.id!r} stands on an earlier line too; make ids unique"
                )
            seen.add(problem.id)
            yield problem


def task_index(messages: Sequence[ChatMessage]) -> int | None:
    """Index of the message that asks: the last user message, or a tool result after it."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index]["role"] in ("user", "tool", "function"):
            return index
    return None


def _from_record(record: Mapping[str, Any], place: str) -> Problem:
    rest = dict(record)
    raw_id = rest.pop("id", None)
    ground_truth = rest.pop("ground_truth", None)
    messages = _take_messages(rest, place)
    _check_messages(messages, place)
    if raw_id is None or raw_id == "":
        identity = hashlib.blake2b(
            msgspec.json.encode(messages, order="deterministic"), digest_size=6
        ).hexdigest()
    else:
        identity = str(raw_id)
        if not isinstance(raw_id, str):
            # The result names the problem as its record does.
            rest["id"] = raw_id
    return Problem(id=identity, messages=messages, ground_truth=ground_truth, carried=rest)


def _take_messages(record: dict[str, Any], place: str) -> tuple[ChatMessage, ...]:
    for key in _CHAT_KEYS:
        if record.get(key) is not None:
            chat = record.pop(key)
            if isinstance(chat, str):
                return ({"role": "user", "content": chat},)
            if not isinstance(chat, (list, tuple)):
                raise ProblemError(f"{place}: {key!r} must be a list of messages, not {_shown(chat)}")
            return tuple(chat)
    for key in _QUESTION_KEYS:
        if record.get(key) is not None:
            question = record.pop(key)
            if not isinstance(question, str):
                raise ProblemError(f"{place}: {key!r} must be a string, not {_shown(question)}")
            return ({"role": "user", "content": question},)
    known = ", ".join((*_CHAT_KEYS, *_QUESTION_KEYS))
    raise ProblemError(f"{place}: no problem in it; one of these keys must be there: {known}")


def _check_messages(messages: Sequence[Any], place: str) -> None:
    for number, message in enumerate(messages, start=1):
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise ProblemError(
                f"{place}: message {number} must be an object with a role out of {', '.join(_ROLES)}, "
                f"not {_shown(message)}"
            )
        if not isinstance(message.get("content"), (str, list, type(None))):
            raise ProblemError(
                f"{place}: the content of message {number} must be a string or a list of parts, "
                f"not {_shown(message['content'])}"
            )
    for number, message in enumerate(messages, start=1):
        parts = message["content"] if isinstance(message.get("content"), list) else []
        for part in parts:
            if not isinstance(part, dict) or not isinstance(part.get("type"), str):
                raise ProblemError(
                    f"{place}: a part of message {number} must be an object with a type: {_shown(part)}"
                )
            if part["type"] == "text" and not isinstance(part.get("text"), str):
                raise ProblemError(f"{place}: a text part of message {number} needs a string: {_shown(part)}")
    try:
        msgspec.json.encode(messages)
    except (UnicodeEncodeError, TypeError, ValueError) as error:
        raise ProblemError(f"{place}: cannot be sent as JSON ({error})") from error
    index = task_index(messages)
    if index is None or not messages[index].get("content"):
        raise ProblemError(f"{place}: nothing is asked: the chat needs a user message with text")
    if isinstance(messages[index]["content"], str) and not messages[index]["content"].strip():
        raise ProblemError(f"{place}: the question is empty")


def _shown(value: Any) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else repr(value)
    text = text.strip()
    return text if len(text) <= 80 else text[:77] + "..."
