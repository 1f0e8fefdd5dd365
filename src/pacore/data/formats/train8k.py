"""PaCoRe-Train-8k: ``conversation``, ``responses`` (the message pool) and ``ground_truth``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pacore.data.formats.fields import Format, Row, without_empty, written_responses
from pacore.data.formats.pacore import read
from pacore.data.record import Record
from pacore.data.truths import AssertTruth, MathTruth, ProgramTruth, truth_text, truth_value


def write(record: Record) -> Row:
    """Write the three fields, tests as JSON text as there; and beside them what else the record knows."""
    as_text = isinstance(record.truth, (MathTruth, ProgramTruth, AssertTruth))
    row = {
        "conversation": list(record.messages),
        "responses": written_responses(record.pool),
        "ground_truth": truth_text(record.truth) if as_text else truth_value(record.truth),
    }
    known = without_empty(
        {"id": record.id, "source": record.source, "license": record.license, "origin": record.origin}
    )
    return {**record.extra, **row, **known}


def _recognises(row: Mapping[str, Any]) -> bool:
    return "conversation" in row


TRAIN8K = Format("train8k", read, write, _recognises)
