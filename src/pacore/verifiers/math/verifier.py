"""Math by rules, layer by layer: extraction, exact values, structure, and a symbolic engine last."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Literal

from pacore.types import Problem, Verdict
from pacore.verifiers.math.compare import Decision, compare_values
from pacore.verifiers.math.extract import extract_answer
from pacore.verifiers.math.parse import parse_answer
from pacore.verifiers.math.symbolic import SymbolicPool

_MAX_GOLD = 20_000


class MathVerifier:
    """Compares the final answer of a text with a gold answer.

    ``require_box`` (for training) takes only boxed answers. Without a ``pool`` expressions that need a
    symbolic engine are unverifiable.
    """

    def __init__(self, pool: SymbolicPool | None = None, *, require_box: bool = False) -> None:
        self._pool = pool
        self._require_box = require_box

    async def verify(self, problem: Problem, text: str) -> Verdict:
        """The verdict on ``text``; the gold answer is the problem's ``ground_truth``."""
        return await asyncio.to_thread(self.verdict, problem.ground_truth, text)

    def verdict(self, gold: Any, text: str) -> Verdict:
        """The same for a gold answer by itself; blocks, and may be called from any thread."""
        begun = time.perf_counter()
        verdict, reason, evidence = self._decide(gold, text)
        return Verdict(
            verdict=verdict,
            reward=1.0 if verdict == "correct" else 0.0,
            reason=reason,
            evidence=evidence,
            ms=round((time.perf_counter() - begun) * 1e3, 3),
        )

    def check_gold(self, gold: Any) -> Verdict:
        """Whether a gold answer equals itself: to be asked when a data set is loaded."""
        answer = gold.get("answer") if isinstance(gold, dict) else gold
        return self.verdict(gold, f"\\boxed{{{gold_text(answer)}}}")

    def _decide(
        self, gold: Any, text: str
    ) -> tuple[Literal["correct", "incorrect", "unverifiable"], str, dict[str, Any]]:
        if isinstance(gold, dict):
            # A typed truth, {"type": "math", "answer": …}.
            gold = gold.get("answer")
        if not isinstance(gold, (str, int, float)) or isinstance(gold, bool) or not str(gold).strip():
            return "unverifiable", f"bad_gold: {gold!r:.80} is no answer", {}
        if len(str(gold)) > _MAX_GOLD:
            return "unverifiable", f"bad_gold: longer than {_MAX_GOLD} characters", {}
        extracted = extract_answer(text, require_box=self._require_box)
        if extracted.answer is None:
            return "incorrect", extracted.reason, {}
        evidence = {"extracted": extracted.answer[:200], "found_by": extracted.reason}
        try:
            decision: Decision = compare_values(parse_answer(gold_text(gold)), parse_answer(extracted.answer))
        except RecursionError:
            return "unverifiable", "nested: too deep to be read", evidence
        if decision is True:
            return "correct", "equal", evidence
        if decision is False:
            return "incorrect", "different", evidence
        return self._decide_symbolically(decision, evidence)

    def _decide_symbolically(
        self, pairs: Decision, evidence: dict[str, Any]
    ) -> tuple[Literal["correct", "incorrect", "unverifiable"], str, dict[str, Any]]:
        assert not isinstance(pairs, bool)
        if self._pool is None:
            return "unverifiable", "symbolic: no engine for expressions", evidence
        undecided = ""
        for pair in pairs:
            equal, why = self._pool.equal(pair.gold, pair.answer)
            if equal is False:
                return "incorrect", "different", evidence
            if equal is None:
                undecided = why
        if undecided:
            return "unverifiable", f"symbolic: {undecided}", evidence
        return "correct", "equal_symbolically", evidence


def gold_text(gold: Any) -> str:
    """A gold answer as text; of one in a box, the content."""
    text = str(gold)
    if "\\boxed" in text:
        return extract_answer(text).answer or text
    return text.strip()
