"""Answering calls from trajectories that a journal already holds: how a run is resumed."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pacore.sampling.sampler import Call, Capabilities, Sampler, Watcher
from pacore.types import Purpose, Trajectory

CallKey = tuple[int, int, Purpose]


def call_key(item: Call | Trajectory) -> CallKey:
    """What names a call within the run of one problem."""
    return item.round, item.index, item.purpose


class ReplaySampler:
    """Gives back the recorded trajectory of a call where there is one, and asks ``inner`` otherwise.

    A finished call is thus never repeated. Replayed trajectories have the source ``journal``.
    """

    def __init__(self, inner: Sampler, recorded: Iterable[Trajectory]) -> None:
        self._inner = inner
        self._recorded = {call_key(trajectory): trajectory for trajectory in recorded}

    @property
    def capabilities(self) -> Capabilities:
        """Those of the sampler behind."""
        return self._inner.capabilities

    async def sample(self, call: Call, watcher: Watcher) -> Trajectory:
        """The recorded trajectory, or a new one."""
        # Each is asked for once, so it is handed over rather than kept: a long run stays small.
        trajectory = self._recorded.pop(call_key(call), None)
        if trajectory is None:
            return await self._inner.sample(call, watcher)
        return msgspec.structs.replace(trajectory, source="journal")
