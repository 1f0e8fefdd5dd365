"""Which messages say the same: answers read out of them, and classes of equivalent ones.

What "the same answer" means is an :class:`Equivalence`, which the verifiers fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Equivalence(Protocol):
    """Reads answers out of messages and says which are the same: a seam that users replace."""

    def answer(self, text: str) -> str | None:
        """The final answer in a message, or ``None`` where there is none to be read."""

    def equivalent(self, one: str, other: str) -> bool:
        """Whether two answers are the same. Reflexive and symmetric."""


def agreement_classes(texts: Sequence[str], equivalence: Equivalence) -> list[list[int]]:
    """Indices of ``texts`` grouped by equivalent answer, the largest class first.

    Texts without an answer are in no class. Equally large classes stand in the order of their first
    member.
    """
    classes: list[tuple[str, list[int]]] = []
    for index, text in enumerate(texts):
        answer = equivalence.answer(text)
        if answer is None:
            continue
        for known, members in classes:
            if equivalence.equivalent(known, answer):
                members.append(index)
                break
        else:
            classes.append((answer, [index]))
    return sorted((members for _, members in classes), key=len, reverse=True)


def agreement_of(classes: Sequence[Sequence[int]], messages: int) -> float | None:
    """The share of ``messages`` that are in the largest class; ``None`` where no answer was read."""
    return len(classes[0]) / messages if classes else None
