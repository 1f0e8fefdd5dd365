"""Slots for calls in flight, given to the call that a finished answer needs most."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count


class CallSlots:
    """A limit on calls in flight that serves waiting calls by priority, then by arrival.

    The dispatcher asks with the negative round as priority: a call of a later round belongs to a problem
    that is nearer to its answer, so it goes first, and problems finish one after another instead of
    all at the end.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._free = limit
        self._waiting = 0
        self._queue: list[tuple[float, int, asyncio.Future[None]]] = []
        self._arrivals = count()
        self.idle = asyncio.Event()
        self.idle.set()

    @property
    def free(self) -> int:
        """Slots nobody holds."""
        return self._free

    async def acquire(self, priority: float = 0.0) -> None:
        """Wait for a slot; lower ``priority`` is served first."""
        if self._free > 0 and not self._waiting:
            self._free -= 1
            if not self._free:
                self.idle.clear()
            return
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._queue, (priority, next(self._arrivals), slot))
        self._waiting += 1
        self.idle.clear()
        try:
            await slot
        except asyncio.CancelledError:
            if slot.done() and not slot.cancelled():
                self.release()
            else:
                self._waiting -= 1
                self._update_idle()
            raise

    def release(self) -> None:
        """Give a slot back: to the first waiting call, or to nobody."""
        while self._queue:
            slot = heapq.heappop(self._queue)[2]
            if not slot.done():
                self._waiting -= 1
                slot.set_result(None)
                self._update_idle()
                return
        self._free += 1
        self._update_idle()

    def _update_idle(self) -> None:
        if self._free > 0 and not self._waiting:
            self.idle.set()
