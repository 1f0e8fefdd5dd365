"""Comparing two values: exactly where that decides, and otherwise by what a symbolic engine must show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from pacore.verifiers.math.units import DEGREE, conversion
from pacore.verifiers.math.values import (
    Based,
    BigInteger,
    Collection,
    Expression,
    Matrix,
    Number,
    Quantity,
    Union,
    Value,
    Words,
)

_APPROXIMATION = Fraction(1, 10**9)


@dataclass(frozen=True)
class Pair:
    """Two expressions that a symbolic engine must find equal."""

    gold: str
    answer: str


Decision: TypeAlias = bool | tuple[Pair, ...]
"""Equal, different, or equal exactly when all these pairs are."""


def compare_values(gold: Value, answer: Value) -> Decision:
    """Whether ``answer`` is the value ``gold``; symmetric, and without any symbolic engine."""
    if gold == answer:
        return True
    if isinstance(gold, Quantity) or isinstance(answer, Quantity):
        return _quantities(gold, answer)
    if isinstance(gold, Based) or isinstance(answer, Based):
        return _based(gold, answer)
    if isinstance(gold, Number) and isinstance(answer, Number):
        return _numbers(gold, answer)
    if isinstance(gold, (Collection, Union, Matrix)) or isinstance(answer, (Collection, Union, Matrix)):
        return _structures(gold, answer)
    if isinstance(gold, (Words, BigInteger)) or isinstance(answer, (Words, BigInteger)):
        return _words(gold, answer)
    return _expressions(gold, answer)


def expression_text(value: Value) -> str | None:
    """A scalar value as LaTeX for a symbolic engine; ``None`` for anything that is no scalar."""
    if isinstance(value, Expression):
        return value.text
    if isinstance(value, BigInteger):
        return value.digits
    if isinstance(value, Number):
        number = value.value
        if number.denominator == 1:
            return str(number.numerator)
        sign = "-" if number < 0 else ""
        return f"{sign}\\frac{{{abs(number.numerator)}}}{{{number.denominator}}}"
    return None


def _numbers(gold: Number, answer: Number) -> bool:
    if gold.value == answer.value:
        return True
    if gold.value.denominator == 1 or answer.value.denominator == 1:
        return False
    # A decimal stands for a fraction that does not terminate once it has nine right digits.
    if gold.decimal == answer.decimal:
        return False
    fraction = answer.value if gold.decimal else gold.value
    return not _terminates(fraction) and abs(gold.value - answer.value) <= _APPROXIMATION * abs(fraction)


def _terminates(number: Fraction) -> bool:
    rest = number.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


def _quantities(gold: Value, answer: Value) -> Decision:
    if not (isinstance(gold, Quantity) and isinstance(answer, Quantity)):
        quantity, other = (gold, answer) if isinstance(gold, Quantity) else (answer, gold)
        assert isinstance(quantity, Quantity)
        plain = (
            compare_values(quantity.value, other)
            if gold is quantity
            else compare_values(other, quantity.value)
        )
        if quantity.unit == DEGREE and plain is not True and isinstance(other, Expression):
            return _radians(quantity, other, swapped=gold is not quantity)
        return plain
    factor = conversion(gold.unit, answer.unit)
    if factor is None:
        return False
    if factor == 1:
        return compare_values(gold.value, answer.value)
    if isinstance(gold.value, Number) and isinstance(answer.value, Number):
        return gold.value.value * factor == answer.value.value
    return False


def _radians(degrees: Quantity, other: Expression, *, swapped: bool) -> Decision:
    text = expression_text(degrees.value)
    if text is None or r"\pi" not in other.text:
        return False
    pair = (f"\\frac{{({text})\\pi}}{{180}}", other.text)
    return (Pair(*reversed(pair)) if swapped else Pair(*pair),)


def _based(gold: Value, answer: Value) -> bool:
    if isinstance(gold, Based) and isinstance(answer, Based):
        return gold == answer
    based, other = (gold, answer) if isinstance(gold, Based) else (answer, gold)
    assert isinstance(based, Based)
    # The base may be left out where the question gives it: the digits are then read in it.
    if isinstance(other, Number) and other.value.denominator == 1:
        return based.digits == str(other.value.numerator)
    return False


def _structures(gold: Value, answer: Value) -> Decision:
    if isinstance(gold, Matrix) and isinstance(answer, Matrix):
        if [len(row) for row in gold.rows] != [len(row) for row in answer.rows]:
            return False
        return _in_order([v for row in gold.rows for v in row], [v for row in answer.rows for v in row])
    if isinstance(gold, Union) and isinstance(answer, Union):
        return _in_any_order(gold.parts, answer.parts)
    if not (isinstance(gold, Collection) and isinstance(answer, Collection)):
        single, other = (gold, answer) if isinstance(gold, Collection) else (answer, gold)
        # A set of one element is that element.
        if isinstance(single, Collection) and single.brackets in ("", "{}") and len(single.items) == 1:
            return compare_values(single.items[0], other)
        return False
    if len(gold.items) != len(answer.items):
        return False
    if not gold.ordered and not answer.ordered:
        return _in_any_order(gold.items, answer.items)
    if "{}" in (gold.brackets, answer.brackets):
        return False
    if gold.ordered and answer.ordered and len(gold.items) == 2 and gold.brackets != answer.brackets:
        return False
    return _in_order(gold.items, answer.items)


def _in_order(gold: Sequence[Value], answer: Sequence[Value]) -> Decision:
    if len(gold) != len(answer):
        return False
    pairs: list[Pair] = []
    for one, other in zip(gold, answer, strict=True):
        decision = compare_values(one, other)
        if decision is False:
            return False
        if decision is not True:
            pairs.extend(decision)
    return tuple(pairs) or True


def _in_any_order(gold: Sequence[Value], answer: Sequence[Value]) -> Decision:
    if len(gold) != len(answer):
        return False
    left, right = list(gold), list(answer)
    for one in gold:
        found = next((other for other in right if compare_values(one, other) is True), None)
        if found is not None:
            left.remove(one)
            right.remove(found)
    if not left:
        return True
    if len(left) == 1:
        return compare_values(left[0], right[0])
    texts = [[expression_text(value) for value in side] for side in (left, right)]
    if any(text is None for side in texts for text in side):
        return False
    if all(isinstance(value, Number) for value in (*left, *right)):
        return False
    one_set, other_set = ("\\{" + ",".join(str(text) for text in side) + "\\}" for side in texts)
    return (Pair(one_set, other_set),)


def _words(gold: Value, answer: Value) -> bool:
    if isinstance(gold, Words) and isinstance(answer, Words):
        return gold.text == answer.text
    words, other = (gold, answer) if isinstance(gold, Words) else (answer, gold)
    if isinstance(words, Words) and isinstance(other, Expression):
        return words.text == re.sub(r"\s+", " ", other.text).casefold()
    return False


def _expressions(gold: Value, answer: Value) -> Decision:
    one, other = expression_text(gold), expression_text(answer)
    if one is None or other is None:
        return False
    if _squeezed(one) == _squeezed(other):
        return True
    if {_squeezed(one), _squeezed(other)} & {r"\infty", r"-\infty"}:
        return False
    return (Pair(as_latex(one), as_latex(other)),)


def as_latex(text: str) -> str:
    """Mathematics typed plainly (``2*pi``, ``exp(16)``, ``sqrt(x)``, ``1.0i``) as LaTeX."""
    text = re.sub(r"\*\*", "^", text)
    text = re.sub(r"(?<![A-Za-z\\])exp\s*\(([^()]*)\)", r"e^{\1}", text)
    text = re.sub(r"(?<![A-Za-z\\])sqrt\s*\(([^()]*)\)", r"\\sqrt{\1}", text)
    text = re.sub(r"(?<![A-Za-z\\])(pi|sin|cos|tan|log|ln)(?![A-Za-z])", r"\\\1 ", text)
    text = re.sub(r"\*", r"\\cdot ", text)
    text = re.sub(r"(?<![\d.])(\d+)\.0+(?!\d)", r"\1", text)
    return re.sub(r"(?<![\d.])1(?=[a-z](?![A-Za-z]))", "", text)


def _squeezed(text: str) -> str:
    return re.sub(r"\s|\\cdot(?![a-zA-Z])|\*", "", text)
