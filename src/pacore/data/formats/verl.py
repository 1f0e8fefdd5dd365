"""verl's rows: ``data_source``, ``prompt``, ``ability``, ``reward_model`` and ``extra_info``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pacore.data.formats.fields import (
    Format,
    Row,
    id_of,
    json_inside,
    read_chat,
    read_responses,
    text_of,
    written_responses,
)
from pacore.data.record import Record
from pacore.data.truths import read_truth, truth_text
from pacore.errors import ProblemError


def read(row: Row, place: str) -> Record:
    """Read a row; of other people's ``extra_info`` everything stays under that key of ``extra``."""
    rest = dict(row)
    messages = read_chat(rest.pop("prompt", None), place)
    reward_model = dict(_mapping(rest.pop("reward_model", None), "reward_model", place))
    info = dict(_mapping(rest.pop("extra_info", None) or {}, "extra_info", place))
    truth = read_truth(reward_model.pop("ground_truth", None), place)
    if reward_model.get("style") == "rule":
        del reward_model["style"]
    pool = read_responses(info.pop("pool", None), place)
    packed = json_inside(info.pop("record", None) or "{}")
    known: Row = packed if isinstance(packed, dict) else {}
    record = Record(
        id=id_of(info, "id", messages),
        messages=messages,
        truth=truth,
        pool=pool,
        source=text_of(rest, "data_source"),
        license=text_of(known, "license"),
        origin=text_of(known, "origin"),
        extra={**known.get("extra", {}), **rest},
    )
    if record.extra.get("ability") == _ability(record):
        del record.extra["ability"]
    for key, left in (("extra_info", info), ("reward_model", reward_model)):
        if left:
            record.extra[key] = left
    return record


def write(record: Record) -> Row:
    """Write a row. The pool is JSON text in ``extra_info``, as a column of a table has one type."""
    extra = dict(record.extra)
    ability = extra.pop("ability", None) or _ability(record)
    info = {**extra.pop("extra_info", {}), "id": record.id}
    reward_model = {**extra.pop("reward_model", {}), "ground_truth": truth_text(record.truth)}
    if record.pool:
        info["pool"] = msgspec.json.encode(written_responses(record.pool)).decode()
    known = {"license": record.license, "origin": record.origin, "extra": extra}
    if any(known.values()):
        info["record"] = msgspec.json.encode(known).decode()
    return {
        "data_source": record.source,
        "prompt": list(record.messages),
        "ability": ability,
        "reward_model": {"style": "rule", **reward_model},
        "extra_info": info,
    }


def _ability(record: Record) -> str:
    return "code" if record.is_code else "math"


def _mapping(value: Any, key: str, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ProblemError(f"{place}: {key} is an object, not {value!r:.80}")
    found = {name: item for name, item in value.items() if item is not None}
    other = json_inside(found.get("other"))
    if isinstance(found.get("other"), str) and isinstance(other, dict):
        # What a table had no fields for.
        del found["other"]
        found = {**other, **found}
    return found


def _recognises(row: Mapping[str, Any]) -> bool:
    return "reward_model" in row and "prompt" in row


VERL = Format("verl", read, write, _recognises)
