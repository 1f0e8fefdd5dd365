"""Bringing an answer into one spelling: characters, wrappers and layout, never its meaning."""

from __future__ import annotations

import re
import unicodedata

from pacore.verifiers.math.extract import closing_brace

_CHARACTERS = str.maketrans(
    {
        "−": "-",
        "–": "-",
        "—": "-",
        "‐": "-",
        "‑": "-",
        "－": "-",
        "×": r"\times ",
        "·": r"\cdot ",
        "÷": "/",
        "≤": r"\le ",
        "≥": r"\ge ",
        "≠": r"\ne ",
        "≈": r"\approx ",
        "∞": r"\infty ",
        "π": r"\pi ",
        "∪": r"\cup ",
        "∩": r"\cap ",
        "∈": r"\in ",
        "∅": r"\emptyset ",
        "±": r"\pm ",
        "°": r"^\circ ",
        "∘": r"\circ ",
        "（": "(",
        "）": ")",
        "，": ",",
        "：": ":",
        "％": "%",
    }
)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿⁱ", "0123456789-+ni")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉ₙₖₘ", "0123456789nkm")
_ROOT = re.compile(r"√\s*(?:\((?P<group>[^()]*)\)|(?P<digits>\d+|[A-Za-z])|(?=\{))")
_COMMANDS = (
    (re.compile(r"\\[dtc]frac(?![a-zA-Z])"), r"\\frac"),
    (
        re.compile(
            r"\\(?:left|right|bigl|bigr|Bigl|Bigr|big|Big|displaystyle|textstyle|limits|nolimits)(?![a-zA-Z])"
        ),
        "",
    ),
    (re.compile(r"\\(?:leq|leqslant)(?![a-zA-Z])"), r"\\le "),
    (re.compile(r"\\(?:geq|geqslant)(?![a-zA-Z])"), r"\\ge "),
    (re.compile(r"\\(?:lt)(?![a-zA-Z])"), "<"),
    (re.compile(r"\\(?:gt)(?![a-zA-Z])"), ">"),
    (re.compile(r"\\(?:neq)(?![a-zA-Z])"), r"\\ne "),
    (re.compile(r"\\(?:varnothing)(?![a-zA-Z])"), r"\\emptyset "),
    (re.compile(r"\\(?:dots|ldots|cdots)(?![a-zA-Z])"), r"\\ldots "),
    (re.compile(r"\\(?:lbrace)(?![a-zA-Z])"), r"\\{"),
    (re.compile(r"\\(?:rbrace)(?![a-zA-Z])"), r"\\}"),
    (re.compile(r"\\(?:degree)(?![a-zA-Z])"), r"^\\circ "),
    (re.compile(r"\\(?:lvert|rvert|vert)(?![a-zA-Z])"), "|"),
    (re.compile(r"\^\{\s*\\circ\s*\}"), r"^\\circ "),
    (re.compile(r"\\q?quad(?![a-zA-Z])"), " "),
    (re.compile(r"(?<!\\)\\(?=\s)"), " "),
)
_WRAPPERS = (
    "mathbf",
    "textbf",
    "boldsymbol",
    "bm",
    "mathit",
    "textit",
    "underline",
    "mbox",
    "emph",
    "operatorname",
)
_SPACES = re.compile(r"\\[,;:!>]|[\u2009\u200a\u202f\u00a0]")
_THIN_GROUPS = re.compile(r"(?<=\d)(?:\{,\}|\\[,;:!]|[\u2009\u202f])+(?=\d{3}(?:\D|$))")


def clean_answer(text: str) -> str:
    """``text`` in one spelling of characters, fractions and relations, without display commands.

    Words in ``\\text{…}`` stay marked, as units and words are told apart from letters later.
    """
    text = text.translate(_CHARACTERS)
    text = _scripts(text)
    text = _ROOT.sub(lambda match: _root(match["group"] or match["digits"]), text)
    text = re.sub(r"[¼-¾⅐-⅞]", _vulgar_fraction, text)
    text = unicodedata.normalize("NFKC", text)
    text = re.sub(r"\\\(|\\\)|\\\[|\\\]|\$\$", " ", text)
    text = re.sub(r"(?<!\\)\$", " ", text).replace("**", "").replace("`", "")
    text = _THIN_GROUPS.sub("{,}", text).replace("{,}", ",")
    text = _SPACES.sub(" ", text)
    for pattern, replacement in _COMMANDS:
        text = pattern.sub(replacement, text)
    text = unwrap_commands(text, _WRAPPERS)
    text = _uncolored(text)
    text = re.sub(r"\\(?:mathrm|mathsf|rm|text)\s*\{\s*([ei])\s*\}", r" \1 ", text)
    text = re.sub(r"\\(?:text|mathrm|textrm|rm|mathsf|textsf)\s*\{", r"\\text{", text)
    text = _short_fractions(text)
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r"^(?:\\approx|\\sim|~)\s*", "", text)
    text = re.sub(r"\s*\.\.\.+$", r"\\ldots ", text)
    while text.endswith((".", ",", ";")) and not text.endswith("\\,"):
        text = text[:-1].rstrip()
    return _without_outer_braces(text)


def unwrap_commands(text: str, names: tuple[str, ...]) -> str:
    """``\\name{x}`` to ``x`` for every command in ``names``."""
    pattern = re.compile(r"\\(?:" + "|".join(names) + r")\s*\{")
    while match := pattern.search(text):
        end = closing_brace(text, match.end() - 1)
        if end is None:
            break
        text = text[: match.start()] + text[match.end() : end] + text[end + 1 :]
    return text


def _scripts(text: str) -> str:
    """Raised and lowered characters, which would become plain ones, as powers and indices."""
    text = re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿⁱ]+", lambda match: f"^{{{match[0].translate(_SUPERSCRIPTS)}}}", text)
    return re.sub(r"[₀₁₂₃₄₅₆₇₈₉ₙₖₘ]+", lambda match: f"_{{{match[0].translate(_SUBSCRIPTS)}}}", text)


def _root(radicand: str | None) -> str:
    return r"\sqrt" if radicand is None else f"\\sqrt{{{radicand}}}"


def _vulgar_fraction(match: re.Match[str]) -> str:
    over, _, under = unicodedata.normalize("NFKC", match[0]).partition("⁄")
    return f" \\frac{{{over}}}{{{under}}}"


def _uncolored(text: str) -> str:
    text = re.sub(r"\\(?:text)?color\s*\{[a-zA-Z]+\}", "", text)
    return _without_outer_braces(text.strip())


def _short_fractions(text: str) -> str:
    """``\\frac12``, ``\\frac1{2}`` and ``\\frac{1}2`` with all their braces; ``\\sqrt2`` too."""
    text = re.sub(r"\\frac\s*(\w)\s*(\w)", r"\\frac{\1}{\2}", text)
    text = re.sub(r"\\frac\s*(\w)\s*\{", r"\\frac{\1}{", text)
    text = re.sub(r"(\\frac\s*\{[^{}]*\})\s*(\w)", r"\1{\2}", text)
    return re.sub(r"\\sqrt\s*(\w)", r"\\sqrt{\1}", text)


def _without_outer_braces(text: str) -> str:
    while text.startswith("{") and closing_brace(text, 0) == len(text) - 1:
        text = text[1:-1].strip()
    return text
