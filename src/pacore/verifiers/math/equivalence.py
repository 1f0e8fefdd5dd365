"""The math verifier's idea of "the same answer", for votes, the agreement stop and agreement."""

from __future__ import annotations

from functools import lru_cache

from pacore.verifiers.math.compare import compare_values
from pacore.verifiers.math.extract import extract_answer
from pacore.verifiers.math.parse import parse_answer

_MAX_ANSWER = 2_000
_parse = lru_cache(maxsize=4096)(parse_answer)


class MathEquivalence:
    """Answers are the same where the exact and structural layers find them equal.

    0.5, 1/2 and \\frac12 are one answer; (3,4) is not 34. No symbolic engine is asked, as votes are taken
    while a run goes on: expressions count as the same only where they are written alike. A message
    without a final answer, or with a hedged one, has none: better no vote than a wrong one.
    """

    def answer(self, text: str) -> str | None:
        """The final answer in ``text``: boxed, after "the answer is", or a text of one short line."""
        answer = extract_answer(text).answer
        return answer if answer is not None and len(answer) <= _MAX_ANSWER else None

    def equivalent(self, one: str, other: str) -> bool:
        """Whether two answers are the same. Reflexive and symmetric."""
        if one == other:
            return True
        try:
            return compare_values(_parse(one), _parse(other)) is True
        except RecursionError:
            # Nested beyond reading: not the same, as far as anyone can tell.
            return False
