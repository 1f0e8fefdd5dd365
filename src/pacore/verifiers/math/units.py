"""Units: told apart from the number before them, and converted where both sides name one."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from pacore.verifiers.math.extract import closing_brace

CURRENCY = (r"\$", "$", "€", "£", "¥")
SCALES = {
    "hundred": Fraction(100),
    "thousand": Fraction(1000),
    "million": Fraction(10**6),
    "billion": Fraction(10**9),
    "trillion": Fraction(10**12),
    "dozen": Fraction(12),
    "percent": Fraction(1, 100),
    "百": Fraction(100),
    "千": Fraction(1000),
    "万": Fraction(10**4),
    "亿": Fraction(10**8),
}
"""Words after a number that change it."""
DEGREE = "°"

# Unit to its dimension and size in that dimension's base unit.
_SIZES: dict[str, tuple[str, Fraction]] = {
    "mm": ("length", Fraction(1, 1000)),
    "cm": ("length", Fraction(1, 100)),
    "dm": ("length", Fraction(1, 10)),
    "m": ("length", Fraction(1)),
    "km": ("length", Fraction(1000)),
    "in": ("length", Fraction(254, 10000)),
    "ft": ("length", Fraction(3048, 10000)),
    "yd": ("length", Fraction(9144, 10000)),
    "mi": ("length", Fraction(1609344, 1000)),
    "mg": ("mass", Fraction(1, 1_000_000)),
    "g": ("mass", Fraction(1, 1000)),
    "kg": ("mass", Fraction(1)),
    "s": ("time", Fraction(1)),
    "min": ("time", Fraction(60)),
    "h": ("time", Fraction(3600)),
    "day": ("time", Fraction(86400)),
    "ml": ("volume", Fraction(1, 1000)),
    "l": ("volume", Fraction(1)),
    "$": ("dollars", Fraction(1)),
    "cent": ("dollars", Fraction(1, 100)),
}
_NAMES = {
    "millimeter": "mm",
    "millimetre": "mm",
    "centimeter": "cm",
    "centimetre": "cm",
    "meter": "m",
    "metre": "m",
    "kilometer": "km",
    "kilometre": "km",
    "inch": "in",
    "inches": "in",
    "foot": "ft",
    "feet": "ft",
    "yard": "yd",
    "mile": "mi",
    "gram": "g",
    "kilogram": "kg",
    "second": "s",
    "sec": "s",
    "minute": "min",
    "hour": "h",
    "hr": "h",
    "liter": "l",
    "litre": "l",
    "degree": DEGREE,
    "deg": DEGREE,
    "dollar": "$",
    "usd": "$",
    "euro": "€",
    "yen": "¥",
}
_TRAILING = re.compile(
    r"(?P<value>.*[\d)}!])\s*"
    r"(?P<unit>(?:[A-Za-z]{1,12}|[一-鿿]{1,3})(?:\s?/\s?[A-Za-z]{1,8})?(?:\s*\^\s*\{?\s*[23]\s*\}?)?)",
    re.DOTALL,
)
_COUNTED = re.compile(r"(?P<value>-?[\d.,]+) (?P<unit>[a-z]{3,}(?: [a-z]{3,})?)")
_NO_UNIT = re.compile(
    r"\b(?:not|squared|cubed|factorial|mod|or|and|if|for|when|sin|cos|tan|log|exp|sqrt|otherwise)\b|n't"
)
_POWER = re.compile(r"\s*\^\s*\{?\s*([23])\s*\}?")
_BARE_UNITS = {*_SIZES, *_NAMES, *(f"{name}s" for name in _NAMES)}


class Measured(NamedTuple):
    """A value's text and its unit, empty where there is none; ``in_words`` where it is marked as text."""

    value: str
    unit: str = ""
    in_words: bool = True


def split_unit(text: str) -> Measured:
    """``text`` as value and unit."""
    if text.endswith(r"^\circ"):
        return Measured(text.removesuffix(r"^\circ").strip(), DEGREE)
    place = text.rfind(r"\text{")
    if place > 0:
        end = closing_brace(text, place + 5)
        if end is not None:
            rest = text[end + 1 :]
            power = _POWER.fullmatch(rest)
            value = text[:place].strip()
            if power or not rest.strip():
                degrees = value.endswith(r"^\circ")
                unit = canonical_unit(text[place + 6 : end]) + (f"^{power[1]}" if power else "")
                if _NO_UNIT.search(unit):
                    return Measured(text)
                return Measured(value.removesuffix(r"^\circ").strip(), (DEGREE + unit if degrees else unit))
    match = _TRAILING.fullmatch(text)
    if match and (_is_unit(match["unit"]) or not match["unit"].isascii()):
        return Measured(match["value"].strip(), canonical_unit(match["unit"]), in_words=False)
    match = _COUNTED.fullmatch(text)
    if match and not _NO_UNIT.search(match["unit"]):
        return Measured(match["value"], canonical_unit(match["unit"]))
    return Measured(text)


def _is_unit(text: str) -> bool:
    """Whether letters that no markup tells from variables are a unit: cm, km/h, m^2, million."""
    name = re.split(r"[/^]", text)[0].strip().casefold()
    return name in _BARE_UNITS or name in SCALES


def canonical_unit(text: str) -> str:
    """One name for a unit's spellings; an unknown one in lower case without its plural."""
    name, power, exponent = re.sub(r"[\s.~{}]+", " ", text).strip().casefold().partition("^")
    if power:
        return f"{canonical_unit(name)}^{exponent.strip()}"
    name = name.strip()
    name = _NAMES.get(name, name)
    if name in _SIZES or len(name) < 3:
        return name
    singular = name.removesuffix("s")
    return _NAMES.get(singular, singular)


def conversion(unit: str, other: str) -> Fraction | None:
    """How many ``other`` make one ``unit``; ``None`` where they measure different things."""
    if unit == other:
        return Fraction(1)
    (base, _, power), (other_base, _, other_power) = unit.partition("^"), other.partition("^")
    if power != other_power or base not in _SIZES or other_base not in _SIZES:
        return None
    (dimension, size), (other_dimension, other_size) = _SIZES[base], _SIZES[other_base]
    if dimension != other_dimension:
        return None
    return (size / other_size) ** int(power or 1)
