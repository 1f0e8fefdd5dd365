"""From cleaned text to a value: the outermost structure first, expressions left to a symbolic engine."""

from __future__ import annotations

import re
from fractions import Fraction

from pacore.verifiers.math.clean import clean_answer, unwrap_commands
from pacore.verifiers.math.exact import digit_string, exact_number, is_decimal
from pacore.verifiers.math.units import CURRENCY, SCALES, split_unit
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

_GREEK = (
    r"\\(?:alpha|beta|gamma|delta|epsilon|varepsilon|zeta|eta|theta|kappa|lambda|mu|nu|xi|rho|sigma|tau|phi"
    r"|varphi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Sigma|Phi|Psi|Omega|angle\s*[A-Z]+|overline\{[A-Z]+\})"
)
# Letters side by side are a product unless they are points (AB) or a word (area); a log is no name.
_NAME = (
    rf"(?:{_GREEK}|(?!log|lim|sin|cos|tan|cot|exp|abc|xyz)(?=[a-z]*[aeiou])[a-z]{{3,}}|[A-Z][a-z]+|[A-Z]{{2,4}}"
    r"|[A-Za-z])(?:_\{?\w+\}?)?'*(?:\s*\([\w\s,]*\))?"
)
_ASSIGNED = re.compile(
    rf"\s*(?:\\text\{{[^{{}}]*\}}\s*)?(?P<name>(?:{_NAME})?)\s*(?:=|\\equiv)\s*(?P<value>.+)", re.DOTALL
)
_TUPLE_ASSIGNED = re.compile(
    rf"\s*\(\s*(?P<names>{_NAME}(?:\s*,\s*{_NAME})+)\s*\)\s*=\s*(?P<value>[^=]+)", re.DOTALL
)
_CONGRUENT = re.compile(
    rf"(?:{_NAME}\s*(?:=|\\equiv)\s*)?(?P<value>[^=]+?)\s*(?:\\pmod\s*|\(\s*\\?b?mod\s*|\\bmod\s*)"
    r"\{?\s*(?P<modulus>[^{}()]+?)\s*\}?\s*\)?",
    re.DOTALL,
)
_ASIDE = re.compile(
    r"(?P<value>.+?)\s*(?:\\text\{\s*\(?\s*(?:since|because|where|as)\b.*|\((?:since|because)\b.*)",
    re.DOTALL,
)
_CONDITION = re.compile(r"\\text\{\s*\(?\s*(?:for|when|if)\b")
_PIECES = re.compile(r"\botherwise\b|\belse\b")
_TIME = re.compile(r"(\d{1,2}:\d{2})\s*(?:\\text\{)?\s*([ap])\.?\s?m\.?\s*\}?", re.IGNORECASE)
_THOUSANDS = re.compile(r"([+-]?(?:\\?[$€£¥])?)(\d{1,3}(?:,\d{3})+(?:\.\d+)?)(?P<rest>\s*[^\d\s,.][^,]*)")
_LINK = re.compile(r"\\text\{\s*(?:and|or)\s*\}|\b(?:and|or)\b|和|或|;|、")
_BASED = re.compile(r"([0-9A-Fa-f]+)\s*_\s*\{?\s*(?:\\text\{)?(\d{1,2})\}?\}?")
_CHOICE = re.compile(
    r"(?:\(?\s*([A-Z])\s*\)|([A-Z])(?=\.\s))(?P<rest>[.:]?\s+(?![-+*/^!]|\\(?:cdot|times)).*|[.:]?)",
    re.DOTALL,
)
_COLONS = re.compile(r"\d+(?:\s*:\s*\d+)+")
_RELATION = re.compile(r"\\le(?![a-zA-Z])|\\ge(?![a-zA-Z])|<=|>=|<|>")
_MATRIX = re.compile(r"\\begin\{[pbB]?matrix\}(.*)\\end\{[pbB]?matrix\}", re.DOTALL)
_PLUS_MINUS = re.compile(r"(?P<before>.*?)\\pm\s*(?P<after>.+)", re.DOTALL)
_NO_SOLUTION = re.compile(r"(?:there (?:is|are) )?no (?:real )?solutions?|none|无解|empty set")
_NUMBER_WORDS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
    *("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
_UNKNOWNS = ("x", "y", "z")
_MAX_CLEAN = 10_000
EMPTY = Collection((), "{}")
INFINITY = Expression(r"\infty")
MINUS_INFINITY = Expression(r"-\infty")


def parse_answer(text: str) -> Value:
    """The value that an answer's text stands for."""
    if len(text) > _MAX_CLEAN:
        digits = digit_string(text)
        return Expression(text) if digits is None else BigInteger(digits)
    return parse_cleaned(clean_answer(text))


def parse_cleaned(text: str) -> Value:
    """The value of text that is in one spelling already."""
    text = text.strip()
    if (value := _plain(text)) is not None:
        return value
    if match := _ASIDE.fullmatch(text):
        return parse_cleaned(match["value"])
    if (value := _conditional(text)) is not None:
        return value
    if match := _CONGRUENT.fullmatch(text):
        return Quantity(parse_cleaned(match["value"]), f"mod {match['modulus'].replace(' ', '')}")
    if match := _THOUSANDS.fullmatch(text):
        text = f"{match[1]}{match[2].replace(',', '')}{match['rest']}"
    if match := _TUPLE_ASSIGNED.fullmatch(text):
        return _tuple_assigned(match["names"], parse_cleaned(match["value"]))
    parts = split_top_level(text)
    if len(parts) > 1:
        return _named(parts) or Collection(_values(parts))
    for reader in (
        _relation,
        _assigned,
        _plus_minus,
        _matrix,
        _union,
        _bracketed,
        _based,
        _quantity,
        _choice,
        _words,
    ):
        if (value := reader(text)) is not None:
            return value
    return Expression(text)


def split_top_level(text: str) -> list[str]:
    """Parts of a list without brackets of its own, at commas and at the words that link answers."""
    parts: list[str] = []
    start = place = depth = 0
    while place < len(text):
        if text.startswith(("\\{", "\\}"), place):
            depth += 1 if text[place + 1] == "{" else -1
            place += 2
            continue
        if depth == 0:
            link = _LINK.match(text, place)
            if link and (
                (text[place] != "o" and text[place] != "a") or place == 0 or not text[place - 1].isalpha()
            ):
                parts.append(text[start:place])
                start = place = link.end()
                continue
            if text[place] == ",":
                parts.append(text[start:place])
                start = place + 1
        if text[place] in "([{":
            depth += 1
        elif text[place] in ")]}":
            depth -= 1
        place += 1
    parts.append(text[start:])
    kept = [part.strip() for part in parts if part.strip()]
    return kept if len(kept) > 1 else [text]


def _plain(text: str) -> Value | None:
    if (number := exact_number(text)) is not None:
        return Number(number, decimal=is_decimal(text))
    if (digits := digit_string(text)) is not None:
        return BigInteger(digits)
    if text in (r"\infty", r"+\infty"):
        return INFINITY
    if text.replace(" ", "") == r"-\infty":
        return MINUS_INFINITY
    if text in (r"\emptyset", r"\{\}", r"\{ \}"):
        return EMPTY
    if match := _TIME.fullmatch(text):
        return Words(f"{match[1]} {match[2].lower()}m")
    return Words(re.sub(r"\s", "", text)) if _COLONS.fullmatch(text) else None


def _conditional(text: str) -> Value | None:
    """``n^2 if n > 3`` as a value under a condition; of several cases, the whole as it stands."""
    conditions = list(_CONDITION.finditer(text))
    if not conditions or conditions[0].start() == 0:
        return None
    value, condition = text[: conditions[0].start()].strip(), text[conditions[0].start() :]
    if len(conditions) > 1 or _PIECES.search(condition) or len(split_top_level(condition)) > 1:
        return Expression(text)
    words = re.sub(r"\bis\b|\ball\b|[\s{}()]", "", unwrap_commands(condition, ("text",)))
    parsed = parse_cleaned(value)
    return parsed if isinstance(parsed, Words) else Quantity(parsed, words)


def _named(parts: list[str]) -> Value | None:
    """``x = 3, y = 4``: values with names of their own."""
    matches = [_ASSIGNED.fullmatch(part) for part in parts]
    found = {match["name"]: match["value"] for match in matches if match and match["name"]}
    if len(found) < len(parts) or any("=" in value for value in found.values()):
        return None
    names = tuple(sorted(found))
    return Named(names, tuple(parse_cleaned(found[name]) for name in names))


def _tuple_assigned(names: str, value: Value) -> Value:
    listed = tuple(name.strip() for name in names.split(","))
    if isinstance(value, Collection) and value.ordered and len(value.items) == len(listed):
        return Named(listed, value.items)
    return value


def _values(parts: list[str]) -> tuple[Value, ...]:
    """Each part's value; what ``\\pm`` stands for, one by one."""
    values: list[Value] = []
    for part in parts:
        value = parse_cleaned(part)
        if isinstance(value, Collection) and value.brackets == "{}" and "\\pm" in part:
            values.extend(value.items)
        else:
            values.append(value)
    return tuple(values)


def _relation(text: str) -> Value | None:
    """``a < x \\le b`` and ``x \\ge a`` as intervals, ``x \\in S`` as S."""
    if match := re.fullmatch(rf"\s*{_NAME}\s*\\in(?![a-zA-Z])\s*(.+)", text, re.DOTALL):
        return parse_cleaned(match[1])
    pieces = _RELATION.split(text)
    signs = [sign.replace("<=", r"\le").replace(">=", r"\ge") for sign in _RELATION.findall(text)]
    if len(pieces) == 2 and not (_is_name(pieces[0]) or _is_name(pieces[1])):
        return None
    if len(pieces) == 2:
        named_first = _is_name(pieces[0])
        bound = parse_cleaned(pieces[1] if named_first else pieces[0])
        below = (signs[0] in ("<", r"\le")) == named_first
        closed = signs[0].startswith("\\")
        if below:
            return Collection((MINUS_INFINITY, bound), "(]" if closed else "()")
        return Collection((bound, INFINITY), "[)" if closed else "()")
    if len(pieces) == 3 and _is_name(pieces[1]):
        low, high = parse_cleaned(pieces[0]), parse_cleaned(pieces[2])
        if all(sign in (">", r"\ge") for sign in signs):
            low, high, signs = high, low, signs[::-1]
        elif not all(sign in ("<", r"\le") for sign in signs):
            return None
        opening = "[" if signs[0].startswith("\\") else "("
        return Collection((low, high), opening + ("]" if signs[1].startswith("\\") else ")"))
    return None


def _assigned(text: str) -> Value | None:
    if match := _ASSIGNED.fullmatch(text):
        value = match["value"]
        if "=" in value and exact_number(clean_answer(value.rpartition("=")[2])) is not None:
            value = value.rpartition("=")[2]
        if "=" in value:
            return None
        parsed = parse_cleaned(value)
        # Of the usual unknowns it matters which is meant.
        return Named((match["name"],), (parsed,)) if match["name"] in _UNKNOWNS else parsed
    return None


def _plus_minus(text: str) -> Value | None:
    match = _PLUS_MINUS.fullmatch(text)
    if match is None or r"\pm" in match["after"]:
        return None
    before, after = match["before"].strip(), match["after"].strip()
    return Collection(
        (parse_cleaned(f"{before}+{after}" if before else after), parse_cleaned(f"{before}-{after}")), "{}"
    )


def _matrix(text: str) -> Value | None:
    match = _MATRIX.fullmatch(text)
    if match is None:
        return None
    rows = [row for row in re.split(r"\\\\", match[1]) if row.strip()]
    return Matrix(tuple(tuple(parse_cleaned(cell) for cell in row.split("&")) for row in rows))


def _union(text: str) -> Value | None:
    parts = re.split(r"\\cup(?![a-zA-Z])", text)
    return Union(tuple(parse_cleaned(part) for part in parts)) if len(parts) > 1 else None


def _bracketed(text: str) -> Value | None:
    if text.startswith("\\{") and text.endswith("\\}"):
        inner = text[2:-2]
        if re.search(r"\\mid(?![a-zA-Z])|:|\|", inner) or (
            "\\}" in inner.replace("\\{", "", 1) and "\\{" not in inner
        ):
            return None
        return Collection(_items(inner), "{}")
    if len(text) < 2 or text[0] not in "([" or text[-1] not in ")]" or not _wraps(text):
        return None
    items = _items(text[1:-1])
    if len(items) == 1:
        return items[0] if text[0] == "(" and text[-1] == ")" else Collection(items, text[0] + text[-1])
    return Collection(items, text[0] + text[-1])


def _items(text: str) -> tuple[Value, ...]:
    return _values(split_top_level(text)) if text.strip() else ()


def _wraps(text: str) -> bool:
    """Whether the first bracket closes only at the very end; intervals may mix their kinds."""
    depth = 0
    for place, letter in enumerate(text):
        if letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
            if depth == 0:
                return place == len(text) - 1
    return False


def _based(text: str) -> Value | None:
    match = _BASED.fullmatch(text)
    if match is None or not 2 <= int(match[2]) <= 36:
        return None
    return Based(match[1].lstrip("0").upper() or "0", int(match[2]))


def _quantity(text: str) -> Value | None:
    for sign in CURRENCY:
        if text.startswith(sign):
            amount = parse_cleaned(text.removeprefix(sign))
            return Quantity(amount, sign.removeprefix("\\")) if isinstance(amount, Number) else None
    value, unit, in_words = split_unit(text)
    if not unit or not value:
        return None
    parsed = parse_cleaned(value)
    if unit in SCALES:
        return Number(parsed.value * SCALES[unit], parsed.decimal) if isinstance(parsed, Number) else None
    if isinstance(parsed, (Words, Quantity)):
        return None
    # Turned round, as the engine takes what stands last for a unit and drops it.
    in_words = in_words or (text[-2:-1] == " " and isinstance(parsed, Number))
    return Quantity(parsed, unit, "" if in_words or len(unit) > 1 else f"{text[-1]} \\cdot ({value})")


def _choice(text: str) -> Value | None:
    match = _CHOICE.fullmatch(unwrap_commands(text, ("text",)))
    if match is None:
        return None
    letter = match[1] or match[2]
    return Words(letter.lower()) if text.lstrip("( ").startswith((letter, "\\text")) else None


def _words(text: str) -> Value | None:
    bare = unwrap_commands(text, ("text",)).strip()
    if not bare or re.search(r"[\\^_={}+*/<>|#]", bare):
        return None
    if re.search(r"\d", bare) and not re.search(r"\\text\{[^{}]*[^\W\d_]{3,}", text):
        return None
    lowered = re.sub(r"\s+", " ", bare.casefold()).strip(" .!,;'\"()")
    if _NO_SOLUTION.fullmatch(lowered):
        return EMPTY
    if lowered in _NUMBER_WORDS:
        return Number(Fraction(_NUMBER_WORDS.index(lowered)))
    letters = re.sub(r"[^\w]", "", bare)
    if bare in ("e", "i") or (len(letters) == 1 and re.search(r"[!']$", bare)):
        return None
    # A lone letter is a choice or a variable; several without \text may be a product of variables.
    if len(letters) <= 1 or "\\text" in text or len(letters) > 3 or not letters.isascii():
        return Words(lowered) if lowered else None
    return None


def _is_name(text: str) -> bool:
    return (
        re.fullmatch(rf"\s*{_NAME}\s*", text) is not None
        and exact_number(text) is None
        and "infty" not in text
    )
