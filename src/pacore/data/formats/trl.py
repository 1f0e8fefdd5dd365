"""TRL's conversational prompts: ``prompt`` as a chat, ``solution`` for the reward, other columns kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pacore.data.formats.fields import Format, Row, without_empty, written_responses
from pacore.data.formats.pacore import read as read_own
from pacore.data.record import Record
from pacore.data.truths import truth_text

_TRUTH_KEYS = ("solution", "answer", "ground_truth")


def read(row: Row, place: str) -> Record:
    """Read a row; the truth is under ``solution``, ``answer`` or ``ground_truth``."""
    rest = dict(row)
    key = next((key for key in _TRUTH_KEYS if rest.get(key) is not None), None)
    truth = rest.pop(key) if key is not None else None
    return read_own({**rest, "ground_truth": truth}, place)


def write(record: Record) -> Row:
    """Write a row. ``solution`` is a string, of tests their JSON."""
    row = {"prompt": list(record.messages), "solution": truth_text(record.truth)}
    known = without_empty(
        {
            "id": record.id,
            "responses": written_responses(record.pool),
            "source": record.source,
            "license": record.license,
            "origin": record.origin,
        }
    )
    return {**record.extra, **row, **known}


def _recognises(row: Mapping[str, Any]) -> bool:
    return "prompt" in row and any(key in row for key in _TRUTH_KEYS) and "info" not in row


TRL = Format("trl", read, write, _recognises)
