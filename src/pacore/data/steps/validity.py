"""Whether a question and its answer are fit for training: a judge says so, four times of four."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from pacore.data.record import Record
from pacore.data.steps.concurrent import in_order
from pacore.data.steps.step import Fallen
from pacore.data.truths import truth_text
from pacore.verifiers.verifier import Verifier


class ValidityJudge:
    """Keeps records that ``judge`` passes: a verifier with the protocol ``validity`` and the rule that all
    passes must agree. One that cannot decide leaves the record out as well, under a reason of its own.

    Programs are not asked about: their tests are held against solutions instead.
    """

    def __init__(self, judge: Verifier, *, limit: int = 16) -> None:
        self._judge = judge
        self._limit = limit

    def __call__(self, records: Iterable[Record]) -> AsyncIterator[Record | Fallen]:
        """Each record, or why the judge did not pass it."""
        return in_order(self._one, records, limit=self._limit)

    async def _one(self, record: Record) -> Record | Fallen:
        if record.is_code:
            return record
        text = f"Question:\n{record.question}\n\nAnswer:\n{truth_text(record.truth)}"
        verdict = await self._judge.verify(record.problem(), text)
        if verdict.verdict == "correct":
            return record
        votes = verdict.evidence.get("votes", {})
        reason = "not_valid" if verdict.verdict == "incorrect" else "judge_undecided"
        return Fallen(id=record.id, reason=reason, detail=f"{verdict.reason} {votes}")
