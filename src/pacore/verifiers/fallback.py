"""Rules first, a judge only for what they leave undecided."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pacore.types import Problem, Verdict
from pacore.verifiers.verifier import Verifier


class FallbackVerifier:
    """Asks ``verifiers`` in their order until one decides; its evidence says what the others said."""

    def __init__(self, verifiers: Sequence[Verifier]) -> None:
        self._verifiers = tuple(verifiers)

    async def verify(self, problem: Problem, text: str) -> Verdict:
        """The first verdict that is not ``unverifiable``, or the last one that is."""
        undecided: list[str] = []
        verdict = Verdict(verdict="unverifiable", reason="no verifier")
        for verifier in self._verifiers:
            verdict = await verifier.verify(problem, text)
            if verdict.verdict != "unverifiable":
                break
            undecided.append(verdict.reason)
        if not undecided or len(self._verifiers) == 1:
            return verdict
        return msgspec.structs.replace(verdict, evidence={**verdict.evidence, "undecided_by": undecided})
