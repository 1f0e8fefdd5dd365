"""Reading the fields that several formats share: chats, cached responses, JSON inside of strings."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pacore.data.record import Record, Response, identity_of
from pacore.errors import ProblemError
from pacore.problems import read_problem
from pacore.types import ChatMessage

Row: TypeAlias = dict[str, Any]

_ROLE_NAMES = {"human": "user", "gpt": "assistant", "bot": "assistant", "model": "assistant"}
_CONTENT_KEYS = ("content", "value", "text", "response")
_REASONING_KEYS = ("reasoning", "reasoning_content")


@dataclass(frozen=True)
class Format:
    """One dialect. ``read`` takes a row and its place for errors; ``recognises`` looks at keys alone."""

    name: str
    read: Callable[[Row, str], Record]
    write: Callable[[Record], Row]
    recognises: Callable[[Mapping[str, Any]], bool]


def read_chat(value: Any, place: str) -> tuple[ChatMessage, ...]:
    """A chat: a list of messages with role and content, or from and value; or a string: JSON of it, or a
    question.

    Raises ProblemError for anything that no chat endpoint would take.
    """
    if isinstance(value, str):
        decoded = json_inside(value)
        value = decoded if _is_chat(decoded) else [{"role": "user", "content": value}]
    if not isinstance(value, Sequence) or not all(isinstance(message, Mapping) for message in value):
        raise ProblemError(f"{place}: a chat is a list of messages or a string, not {value!r:.80}")
    messages = [_message(dict(message)) for message in value]
    return read_problem({"messages": messages}, place=place).messages


def _is_chat(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, dict) and ("role" in item or "from" in item) for item in value)
    )


def _message(message: Row) -> ChatMessage:
    if "role" not in message and "from" in message:
        role = message.pop("from")
        message = {"role": _ROLE_NAMES.get(role, role), "content": message.pop("value", None), **message}
    # Columns of a table make every key of any row a key of all of them.
    return {key: item for key, item in message.items() if item is not None or key == "content"}


def read_responses(value: Any, place: str) -> tuple[Response, ...]:
    """Cached responses: strings, or objects with their text under one of the usual keys."""
    if value is None:
        return ()
    if isinstance(value, str):
        value = json_inside(value)
    if not isinstance(value, Sequence):
        raise ProblemError(f"{place}: responses are a list, not {value!r:.80}")
    return tuple(_response(item, f"{place}: response {number}") for number, item in enumerate(value, 1))


def _response(item: Any, place: str) -> Response:
    if isinstance(item, str):
        return Response(content=item)
    if not isinstance(item, Mapping):
        raise ProblemError(f"{place}: text or an object is wanted, not {item!r:.80}")
    rest = {key: value for key, value in item.items() if value is not None}
    content_key = next((key for key in _CONTENT_KEYS if isinstance(rest.get(key), str)), None)
    if content_key is None:
        raise ProblemError(f"{place}: none of {', '.join(_CONTENT_KEYS)} holds its text: {item!r:.80}")
    content = rest.pop(content_key)
    reasoning_key = next((key for key in _REASONING_KEYS if isinstance(rest.get(key), str)), None)
    reasoning = rest.pop(reasoning_key) if reasoning_key is not None else ""
    reward = rest.pop("reward") if isinstance(rest.get("reward"), (int, float)) else None
    if isinstance(rest.get("extra"), Mapping):
        rest = {**rest.pop("extra"), **rest}
    return Response(content=content, reasoning=reasoning, reward=reward, extra=rest)


def written_responses(pool: Sequence[Response]) -> list[str | Row]:
    """Responses as JSON: a string where there is no more to one than its text."""
    return [_written(response) for response in pool]


def _written(response: Response) -> str | Row:
    row: Row = {"content": response.content}
    if response.reasoning:
        row["reasoning"] = response.reasoning
    if response.reward is not None:
        row["reward"] = response.reward
    row = {**response.extra, **row}
    return response.content if len(row) == 1 else row


def json_inside(value: Any) -> Any:
    """What a string holds as JSON, or the value itself where it is no string or no JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def text_of(row: Row, key: str) -> str:
    """Take a text out of a row; empty where there is none."""
    value = row.pop(key, None)
    return value if isinstance(value, str) else "" if value is None else str(value)


def id_of(row: Row, key: str, messages: Sequence[ChatMessage]) -> str:
    """Take the id out of a row; a hash of the messages where there is none."""
    value = row.pop(key, None)
    return identity_of(messages) if value is None or value == "" else str(value)


def without_empty(row: Row) -> Row:
    """The row without the keys that say nothing."""
    return {key: value for key, value in row.items() if value not in (None, "", [], (), {})}
