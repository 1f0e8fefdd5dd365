"""Exact numbers without a symbolic engine: integers of any size, decimals, fractions, powers of ten.

Also all that synthetic big-integer arithmetic needs.
"""

from __future__ import annotations

import re
from fractions import Fraction

_GROUPED = re.compile(r"([+-]?)(\d{1,3}(?:,\d{3})+|\d{1,3}(?:[ _]\d{3})+)(\.\d+)?")
_DECIMAL = re.compile(r"([+-]?)\s*(\d+\.?\d*|\.\d+)")
_SCIENTIFIC = re.compile(r"([+-]?\s*(?:\d+\.?\d*|\.\d+))[eE]([+-]?\d+)")
_POWER_OF_TEN = re.compile(
    # Without a sign between them, 510^3 is a power of 510.
    r"([+-]?\s*(?:(?:\d+\.?\d*|\.\d+)\s*(?:\\times|\\cdot|\*)\s*)?)10\s*(?:\^|\*\*)\s*\{?\s*([+-]?\d+)\s*\}?"
)
_POWER = re.compile(r"([+-]?)\s*(\d+)\s*(?:\^|\*\*)\s*(?:\{\s*(\d+)\s*\}|(\d+))")
_FRACTION = re.compile(r"([+-]?)\s*\\frac\s*\{([^{}]+)\}\s*\{([^{}]+)\}")
_MIXED = re.compile(r"([+-]?)\s*(\d+)\s*\\frac\s*\{(\d+)\}\s*\{(\d+)\}")
_SLASH = re.compile(r"([+-]?\s*[\d.]+)\s*/\s*([+-]?[\d.]+)")
_MIXED_SLASH = re.compile(r"([+-]?)\s*(\d+)\s+(\d+)/(\d+)")
_MAX_DIGITS = 4_000
_MAX_EXPONENT = 4_000


def exact_number(text: str) -> Fraction | None:
    """The number that ``text`` writes out, or ``None`` where it writes something else.

    Commas, blanks and underscores group only strictly by three: ``12,34`` is no number. Numbers of
    more than 4,000 digits are left to :func:`digit_string`.
    """
    text = text.strip()
    if not text or len(text) > 2 * _MAX_DIGITS or not any(letter.isdigit() for letter in text):
        return None
    if text.endswith(("%", r"\%")):
        inner = exact_number(text.removesuffix("%").removesuffix("\\").strip())
        return None if inner is None else inner / 100
    if match := _GROUPED.fullmatch(text):
        text = re.sub(r"[, _]", "", text)
    if match := _DECIMAL.fullmatch(text):
        return _decimal(match[1] + match[2])
    return _power(text) or _quotient(text)


def digit_string(text: str) -> str | None:
    """An integer of any size as its sign and digits without leading zeros, or ``None``."""
    text = text.strip()
    if _GROUPED.fullmatch(text) and "." not in text:
        text = re.sub(r"[, _]", "", text)
    match = re.fullmatch(r"([+-]?)\s*(\d+)(?:\.0*)?", text)
    if match is None:
        return None
    digits = match[2].lstrip("0") or "0"
    return ("-" if match[1] == "-" and digits != "0" else "") + digits


def is_decimal(text: str) -> bool:
    """Whether ``text`` is written as a decimal with a fractional part."""
    return bool(re.fullmatch(r"[+-]?\s*\d*\.\d+", text.strip()))


def _decimal(text: str) -> Fraction | None:
    return Fraction(text.replace(" ", "")) if len(text) <= _MAX_DIGITS else None


def _power(text: str) -> Fraction | None:
    if match := _SCIENTIFIC.fullmatch(text):
        return _scaled(match[1], int(match[2]))
    if match := _POWER_OF_TEN.fullmatch(text):
        mantissa = re.sub(r"[^\d.+-]", "", match[1])
        return _scaled(mantissa + "1" if mantissa in ("", "+", "-") else mantissa, int(match[2]))
    if match := _POWER.fullmatch(text):
        base, exponent = match[2], match[3] or match[4]
        # As TeX reads it, 2^10 without braces is 2 to the 1, then a 0; written plainly it is 2 to the 10.
        if len(exponent) > 4 or len(base) * int(exponent) > _MAX_DIGITS:
            return None
        value = Fraction(int(base) ** int(exponent))
        return -value if match[1] == "-" else value
    return None


def _quotient(text: str) -> Fraction | None:
    if match := _MIXED.fullmatch(text) or _MIXED_SLASH.fullmatch(text):
        whole, over, under = int(match[2]), int(match[3]), int(match[4])
        if not under:
            return None
        value = whole + Fraction(over, under)
        return -value if match[1] == "-" else value
    if match := _FRACTION.fullmatch(text):
        over_value, under_value = exact_number(match[2]), exact_number(match[3])
        if over_value is None or not under_value:
            return None
        value = over_value / under_value
        return -value if match[1] == "-" else value
    if match := _SLASH.fullmatch(text):
        over_value, under_value = exact_number(match[1]), exact_number(match[2])
        return over_value / under_value if over_value is not None and under_value else None
    return None


def _scaled(mantissa: str, exponent: int) -> Fraction | None:
    value = exact_number(mantissa)
    if value is None or abs(exponent) > _MAX_EXPONENT:
        return None
    return value * Fraction(10) ** exponent
