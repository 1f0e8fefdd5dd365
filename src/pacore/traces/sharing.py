"""Calls that were made once and are shared from then on by every schedule that would make them again."""

from __future__ import annotations

import asyncio
import hashlib

import msgspec

from pacore.sampling.sampler import Call, Capabilities, Sampler, Watcher
from pacore.traces.store import TrajectoryStore
from pacore.types import Trajectory


class SharedCalls:
    """The calls kept in ``store``, and those that are on their way. Failed calls are not kept."""

    def __init__(self, store: TrajectoryStore) -> None:
        self._store = store
        self._under_way: dict[str, asyncio.Future[None]] = {}

    async def sample(self, sampler: Sampler, model: str, call: Call, watcher: Watcher) -> Trajectory:
        """The kept trajectory of a call to ``model``, or a new one by ``sampler``."""
        key = _key(model, call)
        while key in self._under_way:
            # Shielded: that this caller goes away is nothing to the one who makes the call.
            await asyncio.shield(self._under_way[key])
        if key in self._store:
            return msgspec.structs.replace(
                self._store[key],
                round=call.round,
                index=call.index,
                references=call.references,
                source="cache",
            )
        done = self._under_way[key] = asyncio.get_running_loop().create_future()
        try:
            trajectory = await sampler.sample(call, watcher)
            if trajectory.status != "failed":
                self._store.append(key, trajectory)
            return trajectory
        finally:
            del self._under_way[key]
            done.set_result(None)


class SharingSampler:
    """A sampler whose calls are shared. ``model`` names what answers, endpoint and model: with the same
    prompt, sampling and seed it is the same call.
    """

    def __init__(self, inner: Sampler, calls: SharedCalls, *, model: str) -> None:
        self._inner = inner
        self._calls = calls
        self._model = model

    @property
    def capabilities(self) -> Capabilities:
        """Those of the sampler behind."""
        return self._inner.capabilities

    async def sample(self, call: Call, watcher: Watcher) -> Trajectory:
        """The kept trajectory, or a new one."""
        return await self._calls.sample(self._inner, self._model, call, watcher)


def _key(model: str, call: Call) -> str:
    sampling = msgspec.json.encode(call.sampling, order="deterministic")
    parts = (model.encode(), call.prompt.encoded, sampling, str(call.seed).encode())
    return hashlib.blake2b(b"\0".join(parts), digest_size=16).hexdigest()
