"""Calls that were made once and are shared from then on by every schedule that would make them again."""

from __future__ import annotations

import asyncio
import hashlib

import msgspec

from pacore.sampling.sampler import Call, Capabilities, Sampler, Watcher
from pacore.traces.store import TrajectoryStore
from pacore.types import Trajectory


class SharingSampler:
    """Keeps finished trajectories in ``store`` by all that decides them: model, prompt, sampling and seed.

    A call that is on its way already is waited for, not made twice. Failed calls are not kept.
    """

    def __init__(self, inner: Sampler, store: TrajectoryStore, *, model: str) -> None:
        self._inner = inner
        self._store = store
        self._model = model
        self._under_way: dict[str, asyncio.Future[None]] = {}
        self.made = self.shared = 0

    @property
    def capabilities(self) -> Capabilities:
        """Those of the sampler behind."""
        return self._inner.capabilities

    async def sample(self, call: Call, watcher: Watcher) -> Trajectory:
        """The kept trajectory, or a new one."""
        key = self._key(call)
        while key in self._under_way:
            # Shielded: that this caller goes away is nothing to the one who makes the call.
            await asyncio.shield(self._under_way[key])
        if key in self._store:
            self.shared += 1
            return msgspec.structs.replace(
                self._store[key],
                round=call.round,
                index=call.index,
                references=call.references,
                source="cache",
            )
        done = self._under_way[key] = asyncio.get_running_loop().create_future()
        try:
            trajectory = await self._inner.sample(call, watcher)
            if trajectory.status != "failed":
                self._store.append(key, trajectory)
                self.made += 1
            return trajectory
        finally:
            del self._under_way[key]
            done.set_result(None)

    def _key(self, call: Call) -> str:
        sampling = msgspec.json.encode(call.sampling, order="deterministic")
        parts = (self._model.encode(), call.prompt.encoded, sampling, str(call.seed).encode())
        return hashlib.blake2b(b"\0".join(parts), digest_size=16).hexdigest()
