"""The ``verifiers`` library's rows: ``prompt`` or ``question``, ``answer``, ``info``, ``task``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pacore.data.formats.fields import Format, Row, json_inside
from pacore.data.formats.pacore import read as read_own
from pacore.data.formats.pacore import write as write_own
from pacore.data.record import Record
from pacore.data.truths import MathTruth

_OURS = "pacore_record"


def read(row: Row, place: str) -> Record:
    """Read a row; other people's ``info`` and ``task`` stay under these keys of ``extra``."""
    rest = dict(row)
    info = json_inside(rest.get("info"))
    answer = rest.pop("answer", None)
    chat = rest.pop("prompt", None)
    chat = rest.pop("question", None) if chat is None else chat
    if isinstance(info, dict) and isinstance(info.get(_OURS), dict):
        return read_own({**info[_OURS], "messages": chat}, place)
    if "id" not in rest and rest.get("example_id") is not None:
        rest["id"] = rest.pop("example_id")
    return read_own({**rest, "messages": chat, "ground_truth": answer}, place)


def write(record: Record) -> Row:
    """Write a row: the record itself, less its chat, goes into ``info``, where rewards look for more."""
    own = write_own(record)
    messages = own.pop("messages")
    answer = record.truth.answer if isinstance(record.truth, MathTruth) else ""
    info = {_OURS: own}
    return {"prompt": messages, "answer": answer, "info": info, "task": record.source or "pacore"}


def _recognises(row: Mapping[str, Any]) -> bool:
    return ("prompt" in row or "question" in row) and ("answer" in row or "info" in row)


VERIFIERS = Format("verifiers", read, write, _recognises)
