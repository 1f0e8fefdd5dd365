"""Arithmetic made to measure: large integers, a handful of wordings, and the exact answer.

The paper draws both operands uniformly from [1e11, 1e13]; every smaller size makes a curriculum, or a task
for a small model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from pacore.data.record import Record
from pacore.data.truths import IntegerTruth
from pacore.errors import ConfigError
from pacore.seeds import derive_random

Operation = Literal["add", "subtract", "multiply", "power"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)

PRIME = 10**9 + 7
"""The fixed modulus of powers, where the operands are not smaller than it."""

_TEMPLATES: dict[Operation, Sequence[str]] = {
    "add": (
        "Compute {a} + {b}.",
        "What is the sum of {a} and {b}?",
        "Add {b} to {a}. What do you get?",
        "Two numbers are given, {a} and {b}. Find their sum.",
    ),
    "subtract": (
        "Compute {a} - {b}.",
        "What is {a} minus {b}?",
        "Subtract {b} from {a}. What remains?",
        "By how much does {a} exceed {b}? Give a negative number if it is smaller.",
    ),
    "multiply": (
        "Compute {a} * {b}.",
        "What is the product of {a} and {b}?",
        "Multiply {a} by {b}. What do you get?",
        "A rectangle has sides of length {a} and {b}. Find its area.",
    ),
    "power": (
        "Compute {a}^{b} mod {m}.",
        "What is the remainder when {a}^{b} is divided by {m}?",
        "Raise {a} to the power {b} and reduce the result modulo {m}.",
        "Find the residue of {a} to the power {b} modulo {m}.",
    ),
}
_REQUEST = " Put the integer within \\boxed{}."


def make_arithmetic(
    number: int,
    *,
    low: int = 10**11,
    high: int = 10**13,
    operations: Sequence[Operation] = OPERATIONS,
    modulus: int | None = None,
    seed: int = 0,
) -> Iterator[Record]:
    """Yield ``number`` problems, no two alike, with operands drawn uniformly from [low, high].

    ``modulus`` of powers is PRIME, or the largest of 97 and 9973 below it that the operands reach, unless
    given. Raises ConfigError for bounds without enough room.
    """
    if not 0 <= low <= high:
        raise ConfigError(f"arithmetic: operands from {low} to {high}; 0 ≤ low ≤ high is wanted")
    if unknown := [name for name in operations if name not in OPERATIONS]:
        raise ConfigError(f"arithmetic: no operation {unknown[0]!r}; there are {', '.join(OPERATIONS)}")
    room = (high - low + 1) ** 2 * len(operations)
    if not operations or room < 2 * number:
        raise ConfigError(
            f"arithmetic: {number} different problems are too many for operands from {low} to {high}"
        )
    m = modulus or next((prime for prime in (PRIME, 9973, 97) if high >= prime), 7)
    draw = derive_random("arithmetic", seed)
    seen: set[tuple[Operation, int, int]] = set()
    while len(seen) < number:
        operation = draw.choice(operations)
        a, b = draw.randint(low, high), draw.randint(low, high)
        if (operation, a, b) in seen:
            continue
        seen.add((operation, a, b))
        text = draw.choice(_TEMPLATES[operation]).format(a=a, b=b, m=m)
        yield Record(
            id=f"arithmetic-{seed}-{len(seen) - 1}",
            messages=({"role": "user", "content": text + _REQUEST},),
            truth=IntegerTruth(answer=str(_result(operation, a, b, m))),
            source="synthetic arithmetic",
            license="CC0-1.0",
            origin=f"made by pacore, seed {seed}",
            extra={"operation": operation},
        )


def _result(operation: Operation, a: int, b: int, modulus: int) -> int:
    if operation == "add":
        return a + b
    if operation == "subtract":
        return a - b
    if operation == "multiply":
        return a * b
    return pow(a, b, modulus)
