"""Texts as arrays of hashed tokens, many texts at a time, and the hashes of all their n-grams.

Tokens are words, numbers, single signs and single Chinese characters, in lower case. The hash of an n-gram
is a polynomial in 64 bits, computed for all positions at once from sums over the tokens before them.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Hashes: TypeAlias = NDArray[np.uint64]

_TOKEN = re.compile(r"[\u3400-\u9fff]|[^\W\d_\u3400-\u9fff]+|\d+|[^\w\s]|_")
# Odd, so that it has an inverse modulo 2**64.
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)
_MOST_REMEMBERED = 1 << 20


def tokens_of(text: str, *, mask_digits: bool = False) -> list[str]:
    """The tokens of a text; with ``mask_digits`` every number is the token 0."""
    tokens = _TOKEN.findall(text.lower())
    return ["0" if token.isdigit() else token for token in tokens] if mask_digits else tokens


class TokenArrays:
    """The hashed tokens of several texts in one array; text i is ``starts[i]`` to ``starts[i + 1]``."""

    def __init__(self, tokens: Sequence[Sequence[str]]) -> None:
        self.starts = np.concatenate([[0], np.cumsum([len(text) for text in tokens])]).astype(np.int64)
        memory: dict[str, int] = {}
        flat = np.fromiter(
            (_hash(token, memory) for text in tokens for token in text), np.uint64, int(self.starts[-1])
        )
        size = flat.size + 1
        with np.errstate(over="ignore"):
            powers = _powers(_BASE, size)
            self._inverses = _powers(_INVERSE, size)
            # In place of a list with a zero, which would make floats of all of it.
            self._sums = np.zeros(size, np.uint64)
            np.cumsum(flat * powers[:-1], out=self._sums[1:])

    def whole(self) -> Hashes:
        """A hash of each text's whole sequence of tokens, shape (texts,)."""
        with np.errstate(over="ignore"):
            sums = self._sums[self.starts[1:]] - self._sums[self.starts[:-1]]
            lengths = (self.starts[1:] - self.starts[:-1]).astype(np.uint64)
            # Texts of different length that hash alike, such as none and none, differ by it.
            return sums * self._inverses[self.starts[:-1]] + lengths

    def grams(self, n: int) -> tuple[Hashes, NDArray[np.int64], NDArray[np.int64]]:
        """All n-grams within texts: their hashes, the text of each, and where in the text each begins."""
        lengths = np.maximum(self.starts[1:] - self.starts[:-1] - n + 1, 0)
        texts = np.repeat(np.arange(lengths.size), lengths)
        before = np.cumsum(lengths) - lengths
        within = np.arange(int(lengths.sum())) - np.repeat(before, lengths)
        return self.at(self.starts[:-1][texts] + within, n), texts, within

    def at(self, places: NDArray[np.int64], n: int) -> Hashes:
        """The hashes of the n-grams that begin at ``places`` of the whole array."""
        with np.errstate(over="ignore"):
            return (self._sums[places + n] - self._sums[places]) * self._inverses[places]


def _hash(token: str, memory: dict[str, int]) -> int:
    found = memory.get(token)
    if found is None:
        if len(memory) > _MOST_REMEMBERED:
            memory.clear()
        encoded = token.encode("utf-8", "surrogatepass")
        found = memory[token] = zlib.crc32(encoded) << 32 | zlib.adler32(encoded) ^ len(encoded)
    return found


def _powers(base: int, size: int) -> Hashes:
    factors = np.full(size, base, np.uint64)
    factors[0] = 1
    return np.asarray(np.cumprod(factors, dtype=np.uint64))
