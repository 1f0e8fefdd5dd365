"""Problems that are there twice: word for word, or nearly so.

Nearly: the Jaccard similarity of two questions' 5-grams reaches a threshold, and their numbers are the same,
since a template filled with other numbers is another problem. Candidates are found by MinHash and banding
(Broder 1997; Leskovec et al., Mining of Massive Datasets, chapter 3) and then compared in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pacore.data.record import Record
from pacore.data.steps.grams import TokenArrays, tokens_of
from pacore.data.steps.parallel import map_chunks
from pacore.data.steps.step import Fallen
from pacore.data.truths import Truth, truth_value
from pacore.seeds import derive_seed

_SHINGLE = 5
_BANDS, _ROWS = 16, 5
_PERMUTATIONS = _BANDS * _ROWS
# Of one crowded bucket, so many are compared with each further member.
_MOST_REPRESENTATIVES = 64

_Sketch = tuple[NDArray[np.uint32], NDArray[np.uint64], NDArray[np.uint64], list[NDArray[np.uint32]]]


class Deduplication:
    """Keeps the first of each group of duplicates. ``near`` is the least similarity of near ones; ``None``
    leaves only exact ones out. ``same_numbers=False`` takes questions that differ in numbers alone for
    duplicates too.

    Reads its input twice, so it must be iterable again. In memory are about 700 bytes a problem.
    """

    def __init__(
        self, *, near: float | None = 0.8, same_numbers: bool = True, processes: int | None = None
    ) -> None:
        self._near = near
        self._same_numbers = same_numbers
        self._processes = processes

    def __call__(self, records: Iterable[Record]) -> Iterator[Record | Fallen]:
        """Each record, or of which earlier one it is a duplicate."""
        ids: list[str] = []
        truths: list[int] = []
        sketches: list[_Sketch] = []
        chunks = map_chunks(
            sketch_texts, records, shown=lambda record: record.question, processes=self._processes
        )
        for chunk, sketch in chunks:
            ids.extend(record.id for record in chunk)
            truths.extend(_truth_hash(record.truth) for record in chunk)
            sketches.append(sketch)
        if not ids:
            return
        found = self._duplicates(sketches)
        for place, record in enumerate(records):
            if place not in found:
                yield record
                continue
            first, similarity = found[place]
            reason = "exact_duplicate" if similarity is None else "near_duplicate"
            detail = f"of {ids[first]!r}"
            if similarity is not None:
                detail += f", similarity {similarity:.2f}"
            if truths[first] != truths[place]:
                detail += "; their answers differ"
            yield Fallen(id=record.id, reason=reason, detail=detail)

    def _duplicates(self, sketches: Sequence[_Sketch]) -> dict[int, tuple[int, float | None]]:
        """Of which earlier text a text is a duplicate, and how similar they are (``None``: the same)."""
        found: dict[int, tuple[int, float | None]] = {}
        whole = np.concatenate([sketch[1] for sketch in sketches])
        for group in _equal_groups(whole):
            found.update((int(place), (int(group[0]), None)) for place in group[1:])
        if self._near is None:
            return found
        signatures = np.concatenate([sketch[0] for sketch in sketches])
        numbers = np.concatenate([sketch[2] for sketch in sketches])
        shingles = [one for sketch in sketches for one in sketch[3]]
        unique = np.array([place for place in range(len(whole)) if place not in found])
        for band in range(_BANDS):
            rows = signatures[unique, band * _ROWS : (band + 1) * _ROWS]
            keys = _band_keys(rows)
            if self._same_numbers:
                with np.errstate(over="ignore"):
                    keys = keys * np.uint64(31) + numbers[unique]
            for group in _equal_groups(keys):
                self._compare(unique[group], shingles, found)
        return found

    def _compare(
        self,
        members: NDArray[np.int64],
        shingles: Sequence[NDArray[np.uint32]],
        found: dict[int, tuple[int, float | None]],
    ) -> None:
        assert self._near is not None
        representatives: list[int] = []
        for place in members.tolist():
            if place in found:
                continue
            for first in representatives:
                similarity = _jaccard(shingles[first], shingles[place])
                if similarity >= self._near:
                    found[place] = (first, similarity)
                    break
            else:
                if len(representatives) < _MOST_REPRESENTATIVES:
                    representatives.append(place)


def sketch_texts(texts: list[str]) -> _Sketch:
    """Of each text: its MinHash signature, a hash of its tokens, one of its numbers, and its 5-grams."""
    tokens = [tokens_of(text) for text in texts]
    arrays = TokenArrays(tokens)
    numbers = TokenArrays([sorted(token for token in text if token.isdigit()) for text in tokens]).whole()
    hashes, owners, _ = arrays.grams(_SHINGLE)
    folded = (hashes ^ (hashes >> np.uint64(32))).astype(np.uint32)
    signatures = np.full((len(texts), _PERMUTATIONS), np.iinfo(np.uint32).max, np.uint32)
    shingles: list[NDArray[np.uint32]] = [np.empty(0, np.uint32)] * len(texts)
    if hashes.size:
        present, begins = np.unique(owners, return_index=True)
        multipliers, offsets = _permutations()
        with np.errstate(over="ignore"):
            for number in range(_PERMUTATIONS):
                permuted = (hashes * multipliers[number] + offsets[number]) >> np.uint64(32)
                signatures[present, number] = np.minimum.reduceat(permuted.astype(np.uint32), begins)
        for place, part in zip(present.tolist(), np.split(folded, begins[1:]), strict=True):
            shingles[place] = np.unique(part)
    # Texts without a 5-gram are like no other: a signature of their own each.
    alone = np.setdiff1d(np.arange(len(texts)), owners)
    signatures[alone] = arrays.whole()[alone, None].astype(np.uint32)
    return signatures, arrays.whole(), numbers, shingles


def _permutations() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    rng = np.random.default_rng(derive_seed("minhash"))
    multipliers = rng.integers(1, 2**63, _PERMUTATIONS, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    return multipliers, rng.integers(0, 2**63, _PERMUTATIONS, dtype=np.uint64)


def _band_keys(rows: NDArray[np.uint32]) -> NDArray[np.uint64]:
    keys = np.zeros(len(rows), np.uint64)
    with np.errstate(over="ignore"):
        for column in range(rows.shape[1]):
            keys = keys * np.uint64(0x100000001B3) + rows[:, column].astype(np.uint64)
    return keys


def _equal_groups(keys: NDArray[np.uint64]) -> Iterator[NDArray[np.int64]]:
    """The places of equal keys, ascending, where there are several."""
    order = np.argsort(keys, kind="stable")
    arranged = keys[order]
    edges = np.flatnonzero(np.concatenate([[True], arranged[1:] != arranged[:-1], [True]]))
    sizes = np.diff(edges)
    for begin, size in zip(edges[:-1][sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
        yield order[begin : begin + size]


def _jaccard(one: NDArray[np.uint32], other: NDArray[np.uint32]) -> float:
    if one.size == 0 or other.size == 0:
        return 0.0
    common = np.intersect1d(one, other, assume_unique=True).size
    return float(common / (one.size + other.size - common))


def _truth_hash(truth: Truth) -> int:
    return derive_seed(repr(truth_value(truth)))
