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
    Named,
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
    if isinstance(gold, Named) or isinstance(answer, Named):
        return _named(gold, answer)
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


def _named(gold: Value, answer: Value) -> Decision:
    """Names count where both sides have them; otherwise the values, in the order of their names."""
    if isinstance(gold, Named) and isinstance(answer, Named):
        given = dict(zip(answer.names, answer.values, strict=True))
        if gold.names != answer.names and set(gold.names) != set(given):
            return False
        return _in_order(gold.values, [given[name] for name in gold.names])
    if any(isinstance(side, Expression) and "=" in side.text for side in (gold, answer)):
        return _undecided("another", "equation")
    if isinstance(gold, Named):
        return compare_values(_nameless(gold, answer), answer)
    assert isinstance(answer, Named)
    return compare_values(gold, _nameless(answer, gold))


def _nameless(named: Named, other: Value) -> Value:
    if len(named.values) == 1:
        return named.values[0]
    ordered = isinstance(other, Collection) and other.ordered
    return Collection(named.values, other.brackets if ordered and isinstance(other, Collection) else "")


def _quantities(gold: Value, answer: Value) -> Decision:
    if not (isinstance(gold, Quantity) and isinstance(answer, Quantity)):
        quantity, other = (gold, answer) if isinstance(gold, Quantity) else (answer, gold)
        assert isinstance(quantity, Quantity)
        if quantity.written and isinstance(other, (Number, BigInteger)):
            return False
        if quantity.written:
            whole = Expression(quantity.written)
            return compare_values(whole, other) if gold is quantity else compare_values(other, whole)
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
        if _is_condition(gold.unit) and _is_condition(answer.unit):
            # Two conditions in other words: nobody here can tell.
            return _undecided(gold.unit, answer.unit)
        return False
    if gold.unit.startswith("mod ") and isinstance(gold.value, Number) and isinstance(answer.value, Number):
        modulus = gold.unit.removeprefix("mod ")
        return bool(modulus.isdigit() and (gold.value.value - answer.value.value) % max(int(modulus), 1) == 0)
    if factor == 1:
        return compare_values(gold.value, answer.value)
    if isinstance(gold.value, Number) and isinstance(answer.value, Number):
        return gold.value.value * factor == answer.value.value
    return False


def _is_condition(unit: str) -> bool:
    return unit.startswith(("if", "for", "when"))


def _undecided(gold: str, answer: str) -> Decision:
    return (Pair(f"\\text{{{gold}}}", f"\\text{{{answer}}}"),)


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
    if isinstance(gold, Union) and isinstance(answer, Collection) and not answer.brackets:
        return _in_any_order(gold.parts, answer.items)
    if isinstance(answer, Union) and isinstance(gold, Collection) and not gold.brackets:
        return _in_any_order(gold.items, answer.parts)
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
    if gold.brackets != answer.brackets and {gold.brackets, answer.brackets} & {"[)", "(]"}:
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
        return _matched(left, right)
    if all(isinstance(value, Number) for value in (*left, *right)):
        return False
    one_set, other_set = ("\\{" + ",".join(str(text) for text in side) + "\\}" for side in texts)
    return (Pair(one_set, other_set),)


def _matched(gold: Sequence[Value], answer: Sequence[Value]) -> Decision:
    """Structures in any order: each must have a partner that it may equal, and only one to be decided."""
    pairs: list[Pair] = []
    taken: set[int] = set()
    for one in gold:
        possible = [(place, compare_values(one, other)) for place, other in enumerate(answer)]
        possible = [(place, decision) for place, decision in possible if decision is not False]
        if not possible:
            return False
        if len(possible) > 1 or possible[0][0] in taken:
            return _undecided("in any", "order")
        taken.add(possible[0][0])
        decision = possible[0][1]
        pairs.extend(decision if not isinstance(decision, bool) else ())
    return tuple(pairs) or True


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
    if ("=" in one) != ("=" in other):
        # An equation is as good as a value only where all its sides are that value.
        sides, other_sides = _sides(one), _sides(other)
        return tuple(Pair(as_latex(a), as_latex(b)) for a in sides for b in other_sides)
    return (Pair(as_latex(one), as_latex(other)),)


def _sides(text: str) -> list[str]:
    """The sides of an equation; of one that names what was asked for (``m+n=33``), the last."""
    sides = re.split(r"(?<![<>!])=", text)
    left = re.sub(r"\\(?:frac|cdot|times|sqrt|left|right)(?![a-zA-Z])", "", sides[0])
    if len(sides) > 1 and len(set(re.findall(r"[A-Za-z]", left))) > 1 and "\\" not in left:
        return sides[-1:]
    return sides


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
    """Without what changes nothing: blanks and signs of multiplication, except between digits."""
    text = re.sub(r"\s*(?:\\cdot(?![a-zA-Z])|\*)\s*", "·", text)
    text = re.sub(r"(?<!\d)·|·(?!\d)", "", text)
    return re.sub(r"(?<!\d)\s+|\s+(?!\d)", "", text)
