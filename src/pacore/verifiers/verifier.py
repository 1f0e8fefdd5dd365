"""The one interface of verification: the seam at which users add their own."""

from __future__ import annotations

from typing import Protocol

from pacore.types import Problem, Verdict


class Verifier(Protocol):
    """Says whether a text answers a problem rightly."""

    async def verify(self, problem: Problem, text: str) -> Verdict:
        """The verdict on ``text`` as an answer to ``problem``, whose ``ground_truth`` holds the truth."""
