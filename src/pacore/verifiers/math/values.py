"""What an answer can be: numbers, quantities, words, collections, intervals, and the rest as expressions."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias


@dataclass(frozen=True)
class Number:
    """An exact number; ``decimal`` where it was written with a fractional part."""

    value: Fraction
    decimal: bool = False


@dataclass(frozen=True)
class BigInteger:
    """An integer too long to compute with: its sign and digits."""

    digits: str


@dataclass(frozen=True)
class Based:
    """Digits in a stated base, as in 1011 in base 2."""

    digits: str
    base: int


@dataclass(frozen=True)
class Quantity:
    """A value with a unit."""

    value: Value
    unit: str
    written: str = field(default="", compare=False)
    """The whole as it stood, where the unit may as well be a variable: ``2m``."""


@dataclass(frozen=True)
class Named:
    """Values given to names: ``x = 3, y = 4``; in the order of a tuple of names, or else of the alphabet."""

    names: tuple[str, ...]
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Words:
    """Text, in lower case and without layout."""

    text: str


@dataclass(frozen=True)
class Collection:
    """Several values. ``brackets`` is ``()``, ``[)`` and so on, ``{}`` for a set, empty for a bare list."""

    items: tuple[Value, ...]
    brackets: str = ""

    @property
    def ordered(self) -> bool:
        """Whether the order of the items matters."""
        return self.brackets not in ("", "{}")


@dataclass(frozen=True)
class Union:
    """A union of sets, in no order."""

    parts: tuple[Value, ...]


@dataclass(frozen=True)
class Matrix:
    """Rows of values."""

    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True)
class Expression:
    """Anything else: text for a symbolic engine."""

    text: str


Value: TypeAlias = (
    Number | BigInteger | Based | Quantity | Named | Words | Collection | Union | Matrix | Expression
)
