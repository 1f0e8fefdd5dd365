"""Holding truths against themselves, on all cores: an answer must equal itself, a solution pass its tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from pacore.data.record import Record
from pacore.data.truths import (
    AssertTruth,
    ChoiceTruth,
    IntegerTruth,
    MathTruth,
    ProgramTruth,
    kind_of,
    truth_value,
)
from pacore.verifiers.lines import verify_lines
from pacore.verifiers.math.verifier import gold_text


class Checked(Struct, frozen=True, kw_only=True):
    """What came of a record: its truth ``holds``, ``fails`` with a reason, or is ``untested``."""

    id: str
    kind: str
    outcome: Literal["holds", "fails", "untested"]
    reason: str = ""


def check_truths(
    records: Iterable[Record],
    *,
    processes: int | None = None,
    headers: Path | None = None,
    allow_unsafe: bool = False,
) -> Iterator[Checked]:
    """Check every record, in order. Tests count as untested where no reference solution comes with them."""
    lines = (msgspec.json.encode(_case(record)) for record in records)
    for found in verify_lines(lines, processes=processes, headers=headers, allow_unsafe=allow_unsafe):
        identity, kind, tested = found["id"]
        if not tested:
            yield Checked(id=identity, kind=kind, outcome="untested")
        elif found["verdict"] == "correct":
            yield Checked(id=identity, kind=kind, outcome="holds")
        else:
            reason = f"{found['verdict']}: {found['reason']}"
            yield Checked(id=identity, kind=kind, outcome="fails", reason=reason)


def _case(record: Record) -> dict[str, Any]:
    """A line for the verifier. Its id carries what is known of the record through."""
    prediction = own_answer(record)
    return {
        "id": [record.id, kind_of(record.truth), prediction is not None],
        "problem": {"ground_truth": truth_value(record.truth)},
        "prediction": prediction or "",
    }


def own_answer(record: Record) -> str | None:
    """A text that answers the record as its own truth has it, or ``None`` where the truth holds none."""
    truth = record.truth
    if isinstance(truth, (MathTruth, IntegerTruth)):
        return f"\\boxed{{{gold_text(truth.answer)}}}"
    if isinstance(truth, ChoiceTruth):
        return f"\\boxed{{{truth.answer}}}"
    if isinstance(truth, (ProgramTruth, AssertTruth)):
        return _solution(truth.extra, record.extra)
    return None


def _solution(*places: Mapping[str, Any]) -> str | None:
    """A reference solution, as a block of code in its language."""
    for place in places:
        for key in ("reference", "solution", "solutions"):
            found = place.get(key)
            found = found[0] if isinstance(found, list) and found else found
            if isinstance(found, Mapping) and isinstance(found.get("source"), str):
                return f"```{found.get('language', 'python')}\n{found['source']}\n```"
            if isinstance(found, str) and found.strip():
                return found if "```" in found else f"```python\n{found}\n```"
    return None
