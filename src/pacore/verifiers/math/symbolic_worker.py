"""The process in which the symbolic engine runs: one JSON line in, one JSON line out.

math-verify's time-outs need a main thread of their own, and what hangs or grows all the same is killed
from outside; nothing of that touches the process that asks.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from typing import Any

MEMORY_BYTES = 2 << 30
SOFT_SECONDS = 3
_PRECISION = 60
_TOLERANCE = "1e-40"
_FLOAT_TOLERANCE = "1e-15"
_COUNTS = frozenset("nmkNMK")
_COUNTED = 12


def main() -> None:
    """Answer lines until stdin ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    answers = os.fdopen(os.dup(1), "w")
    # The engine's parsers print on stdout now and then.
    os.dup2(2, 1)
    import logging

    from math_verify import parse, verify
    from math_verify.parser import LatexExtractionConfig

    logging.disable(logging.CRITICAL)
    config = [LatexExtractionConfig()]
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            equal = _equal(request["gold"], request["answer"], parse, verify, config)
        except Exception as error:
            # Whatever the engine stumbles over, the pair is undecided and the worker lives on.
            answers.write(json.dumps({"equal": None, "why": type(error).__name__}) + "\n")
        else:
            answers.write(json.dumps({"equal": equal}) + "\n")
        answers.flush()


def _equal(gold: str, answer: str, parse: Any, verify: Any, config: list[Any]) -> bool | None:
    parsed = [
        parse(
            f"\\boxed{{{text}}}",
            extraction_config=config,
            parsing_timeout=SOFT_SECONDS,
            fallback_mode="no_fallback",
        )
        for text in (gold, answer)
    ]
    if not all(parsed):
        return None
    if not verify(parsed[0], parsed[1], timeout_seconds=SOFT_SECONDS, allow_set_relation_comp=True):
        return _equal_for_counts(parsed[0][0], parsed[1][0])
    return _closed_forms_agree(parsed[0][0], parsed[1][0])


def _closed_forms_agree(one: Any, other: Any) -> bool:
    """Whether two closed forms agree in ratio: the engine's tolerance is absolute, and takes
    1/2004! for 1/2006!.
    """
    import sympy

    if not (isinstance(one, sympy.Expr) and isinstance(other, sympy.Expr)):
        return True
    if one.free_symbols or other.free_symbols:
        return True
    first, second = sympy.N(one, _PRECISION), sympy.N(other, _PRECISION)
    if not (first.is_number and second.is_number) or second == 0:
        return bool(first == second)
    written_out = one.has(sympy.Float) or other.has(sympy.Float)
    return bool(abs(first / second - 1) < sympy.Float(_FLOAT_TOLERANCE if written_out else _TOLERANCE))


def _equal_for_counts(one: Any, other: Any) -> bool:
    """Whether two expressions in n, m, k alone agree where these count something (are positive)."""
    import random

    import sympy

    if not (isinstance(one, sympy.Expr) and isinstance(other, sympy.Expr)):
        return False
    symbols = one.free_symbols | other.free_symbols
    if not symbols or any(symbol.name not in _COUNTS for symbol in symbols):
        return False
    # Neither in step with each other, nor few: n - m is 1, and n/5 and n/6 round alike, now and then.
    draw = random.Random(1)
    for _ in range(_COUNTED):
        values = {symbol: sympy.Integer(draw.randint(1, 40)) for symbol in sorted(symbols, key=str)}
        if not _closed_forms_agree(one.subs(values), other.subs(values)):
            return False
    return True


if __name__ == "__main__":
    main()
