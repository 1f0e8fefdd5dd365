"""Problems that are in a benchmark: the same but for numbers, or with a long passage in common.

As the paper does: exact match after masking digits, and overlap of 64-grams. A benchmark statement shorter
than 64 tokens, but of at least 16, counts as overlap where a problem contains it whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pacore.data.record import Record
from pacore.data.steps.grams import TokenArrays, tokens_of
from pacore.data.steps.parallel import map_chunks
from pacore.data.steps.step import Fallen

_LONG, _SHORT = 64, 16
_SHOWN = 160

Hit = tuple[str, int, str]
"""What was found of a text: the reason, the number of the benchmark's problem, and the words in common."""


class Decontamination:
    """Leaves out what ``benchmarks`` hold; the fallen show the pair."""

    def __init__(self, benchmarks: Iterable[Record], *, processes: int | None = None) -> None:
        self._benchmarks = [(record.id, record.question) for record in benchmarks]
        self._processes = processes

    def __call__(self, records: Iterable[Record]) -> Iterator[Record | Fallen]:
        """Each record, or the benchmark problem that it repeats."""
        texts = [text for _, text in self._benchmarks]
        chunks = map_chunks(
            find_contaminated,
            records,
            shown=lambda record: record.question,
            processes=self._processes,
            begin=_begin,
            given=(texts,),
        )
        for chunk, hits in chunks:
            for place, record in enumerate(chunk):
                if place not in hits:
                    yield record
                    continue
                reason, number, words = hits[place]
                identity, text = self._benchmarks[number]
                beginnings = f"it begins {text[:_SHOWN]!r}, this {record.question[:_SHOWN]!r}"
                detail = f"{identity!r} has {words!r}; {beginnings}"
                yield Fallen(id=record.id, reason=reason, detail=detail)


class _Index:
    """The benchmarks' hashes, sorted to be searched for many at once."""

    def __init__(self, texts: Sequence[str]) -> None:
        tokens = [tokens_of(text, mask_digits=True) for text in texts]
        arrays = TokenArrays(tokens)
        # An empty statement would be every empty question's match.
        filled = np.array([number for number, text in enumerate(tokens) if text], np.int64)
        self.whole = _Sorted(arrays.whole()[filled], filled)
        hashes, owners, _ = arrays.grams(_LONG)
        self.long = _Sorted(hashes, owners)
        short = np.array([n for n, text in enumerate(tokens) if _SHORT <= len(text) < _LONG], np.int64)
        self.lengths = {int(number): len(tokens[number]) for number in short}
        self.full = {
            int(number): arrays.at(arrays.starts[number : number + 1], self.lengths[int(number)])[0]
            for number in short
        }
        anchors = arrays.at(arrays.starts[short], _SHORT) if short.size else np.empty(0, np.uint64)
        self.anchors = _Sorted(anchors, short)


class _Sorted:
    def __init__(self, hashes: NDArray[np.uint64], owners: NDArray[np.int64]) -> None:
        order = np.argsort(hashes, kind="stable")
        self.hashes, self.owners = hashes[order], owners[order]

    def find(self, wanted: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which of ``wanted`` are here, and the range in which each of them begins."""
        if self.hashes.size == 0:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        places = np.searchsorted(self.hashes, wanted)
        inside = places < self.hashes.size
        inside[inside] = self.hashes[places[inside]] == wanted[inside]
        hit = np.flatnonzero(inside)
        return hit, places[hit]

    def owners_from(self, place: int) -> Iterator[int]:
        """The owners of all hashes equal to the one at ``place``."""
        value = self.hashes[place]
        while place < self.hashes.size and self.hashes[place] == value:
            yield int(self.owners[place])
            place += 1


_index: _Index | None = None


def _begin(texts: Sequence[str]) -> None:
    global _index  # noqa: PLW0603 - one a process, as it is made once and searched for every chunk
    _index = _Index(texts)


def find_contaminated(texts: list[str]) -> dict[int, Hit]:
    """Of which of ``texts`` a benchmark has what."""
    assert _index is not None
    tokens = [tokens_of(text, mask_digits=True) for text in texts]
    arrays = TokenArrays(tokens)
    hits: dict[int, Hit] = {}
    for text, place in zip(*_index.whole.find(arrays.whole()), strict=True):
        if tokens[text]:
            number = int(_index.whole.owners[place])
            hits[int(text)] = ("same_but_for_numbers", number, _words(tokens[text]))
    hashes, owners, within = arrays.grams(_LONG)
    for gram, place in zip(*_index.long.find(hashes), strict=True):
        text, begin = int(owners[gram]), int(within[gram])
        number = int(_index.long.owners[place])
        hits.setdefault(text, ("shared_passage", number, _words(tokens[text][begin : begin + _LONG])))
    _find_contained(_index, arrays, tokens, hits)
    return hits


def _find_contained(
    index: _Index, arrays: TokenArrays, tokens: Sequence[Sequence[str]], hits: dict[int, Hit]
) -> None:
    """Short statements that stand whole in a text: found by how they begin, then compared to their end."""
    hashes, owners, within = arrays.grams(_SHORT)
    for gram, place in zip(*index.anchors.find(hashes), strict=True):
        text, begin = int(owners[gram]), int(within[gram])
        if text in hits:
            continue
        for number in index.anchors.owners_from(int(place)):
            length = index.lengths[number]
            if begin + length > len(tokens[text]):
                continue
            at = np.array([arrays.starts[text] + begin], np.int64)
            if arrays.at(at, length)[0] == index.full[number]:
                words = _words(tokens[text][begin : begin + length])
                hits[text] = ("contains_statement", number, words)
                break


def _words(tokens: Sequence[str]) -> str:
    shown = " ".join(tokens)
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
