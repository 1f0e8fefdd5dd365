"""Message pools on disk: n trajectories a problem, verified, read one at a time.

``pool.json``           the settings it was begun with
``problems.jsonl``      its problems, each with its truth
``trajectories.jsonl``  all that was generated, under ``ID#INDEX``, with an index beside it
``verdicts.jsonl``      what was found of each
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import overload

from pacore.data.files import RecordFile
from pacore.data.record import Record, Response
from pacore.errors import ConfigError
from pacore.traces.store import TrajectoryStore
from pacore.types import Trajectory
from pacore.verifiers.cache import Ruling, VerdictFile

DESCRIPTION = "pool.json"
PROBLEMS = "problems.jsonl"
TRAJECTORIES = "trajectories.jsonl"
VERDICTS = "verdicts.jsonl"


def pool_key(problem_id: str, index: int) -> str:
    """The key of a trajectory of a pool."""
    return f"{problem_id}#{index}"


class PoolRows(Sequence[Trajectory]):
    """The trajectories of one problem, each read when it is asked for."""

    def __init__(
        self, store: TrajectoryStore, problem_id: str, indexes: Sequence[int], *, reasoning: bool
    ) -> None:
        self._store = store
        self._problem_id = problem_id
        self._reasoning = reasoning
        self.indexes = indexes

    def __len__(self) -> int:
        return len(self.indexes)

    @overload
    def __getitem__(self, place: int) -> Trajectory: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Trajectory]: ...
    def __getitem__(self, place: int | slice) -> Trajectory | Sequence[Trajectory]:
        """One trajectory, or a view of several."""
        if isinstance(place, slice):
            chosen = self.indexes[place]
            return PoolRows(self._store, self._problem_id, chosen, reasoning=self._reasoning)
        key = pool_key(self._problem_id, self.indexes[place])
        return self._store.read(key, reasoning=self._reasoning)


class MessagePool:
    """A pool for reading, also while another process still fills it; ``pool[id]`` are its trajectories.

    ``reasoning=False`` leaves the reasoning text where it is. Raises ConfigError where there is no pool.
    """

    def __init__(self, path: Path, *, reasoning: bool = True) -> None:
        self.path = path
        self._reasoning = reasoning
        if not (path / TRAJECTORIES).is_file() or not (path / PROBLEMS).is_file():
            raise ConfigError(f"{path} holds no pool; `pacore data pool` makes one")
        self._store = TrajectoryStore(path / TRAJECTORIES, writable=False)
        self.verdicts = VerdictFile(path / VERDICTS, writable=False)
        self._indexes = indexes_by_problem(self._store)

    def __enter__(self) -> MessagePool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._store.close()

    def records(self) -> Iterator[Record]:
        """The problems of the pool."""
        return iter(RecordFile(self.path / PROBLEMS, dialect="pacore"))

    def __getitem__(self, problem_id: str) -> PoolRows:
        """The trajectories of a problem by index. Raises KeyError where there are none."""
        indexes = self._indexes[problem_id]
        return PoolRows(self._store, problem_id, indexes, reasoning=self._reasoning)

    def __contains__(self, problem_id: str) -> bool:
        return problem_id in self._indexes

    def rulings(self, problem_id: str) -> dict[int, Ruling]:
        """What was found of a problem's trajectories, by index."""
        return self.verdicts.of_pool(problem_id)

    def accuracy(self, problem_id: str) -> float | None:
        """Mean reward of a problem's trajectories, those without a verdict left out; ``None`` without any.

        What is unverifiable counts as 0, as in training; :meth:`unverifiable` says how much that is.
        """
        rulings = self.rulings(problem_id)
        return sum(ruling.reward for ruling in rulings.values()) / len(rulings) if rulings else None

    def unverifiable(self, problem_id: str) -> float:
        """The share of a problem's trajectories of which no verdict could be given."""
        rulings = self.rulings(problem_id)
        undecided = sum(ruling.verdict == "unverifiable" for ruling in rulings.values())
        return undecided / len(rulings) if rulings else 0.0

    def responses(self, problem_id: str) -> Iterator[Response]:
        """The messages of a problem as cached responses with their rewards; trajectories without a
        conclusion are left out, as no prompt would show them.
        """
        rulings = self.rulings(problem_id)
        rows = self[problem_id]
        for index, trajectory in zip(rows.indexes, rows, strict=True):
            if trajectory.status == "complete" and trajectory.content.strip():
                ruling = rulings.get(index)
                yield Response(content=trajectory.content, reward=None if ruling is None else ruling.reward)


def indexes_by_problem(store: TrajectoryStore) -> dict[str, list[int]]:
    """Which trajectories of which problem a store holds, in ascending order."""
    found: dict[str, list[int]] = {}
    for key in store.keys():  # noqa: SIM118 - a store is no mapping
        problem_id, _, index = key.rpartition("#")
        found.setdefault(problem_id, []).append(int(index))
    for indexes in found.values():
        indexes.sort()
    return found
