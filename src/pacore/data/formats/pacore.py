"""pacore's own records: JSON with ``messages``, a typed ``ground_truth``, ``responses``, and their origin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pacore.data.formats.fields import (
    Format,
    Row,
    id_of,
    json_inside,
    read_chat,
    read_responses,
    text_of,
    without_empty,
    written_responses,
)
from pacore.data.record import Record
from pacore.data.truths import read_truth, truth_value
from pacore.errors import ProblemError

_CHAT_KEYS = ("messages", "conversation", "question", "problem", "prompt")


def read(row: Row, place: str) -> Record:
    """Read a record; of problem files also the shapes that ``pacore run`` takes."""
    rest = dict(row)
    chat_key = next((key for key in _CHAT_KEYS if rest.get(key) is not None), None)
    if chat_key is None:
        raise ProblemError(f"{place}: no problem in it; one of {', '.join(_CHAT_KEYS)} must be there")
    messages = read_chat(rest.pop(chat_key), place)
    return Record(
        id=id_of(rest, "id", messages),
        messages=messages,
        truth=read_truth(rest.pop("ground_truth", None), place),
        pool=read_responses(rest.pop("responses", None), place),
        source=text_of(rest, "source"),
        license=text_of(rest, "license"),
        origin=text_of(rest, "origin"),
        extra=read_extra(rest),
    )


def read_extra(rest: Row) -> Row:
    """What is left of a row; a table keeps what it has no columns for as JSON under ``extra``."""
    packed = json_inside(rest.get("extra"))
    if isinstance(rest.get("extra"), str) and isinstance(packed, dict):
        return {**packed, **{key: item for key, item in rest.items() if key != "extra"}}
    return rest


def write(record: Record) -> Row:
    """Write a record with its truth typed."""
    own = without_empty(
        {
            "responses": written_responses(record.pool),
            "source": record.source,
            "license": record.license,
            "origin": record.origin,
        }
    )
    head = {
        "id": record.id,
        "messages": list(record.messages),
        "ground_truth": truth_value(record.truth),
        **own,
    }
    return {**record.extra, **head}


def _recognises(row: Mapping[str, Any]) -> bool:
    return "messages" in row or "ground_truth" in row


PACORE = Format("pacore", read, write, _recognises)
