"""Opening jobs one after another, each only when a slot would stand idle without it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from pacore.errors import cause_of
from pacore.session import Session

Job: TypeAlias = Callable[[Callable[[], None]], Awaitable[None]]
"""Work that calls what it is given once its first calls wait for slots."""


class Admission:
    """Runs jobs over a session: memory holds a few of them however many there are."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._opening = 0
        self._opened = asyncio.Event()
        # Calls that wait to be retried hold no slot; without a limit a failing endpoint would have
        # every job opened at once.
        limit = session.slots.limit
        self._room = asyncio.Semaphore(limit + max(4, limit // 4))

    async def run(self, jobs: Iterable[Job]) -> None:
        """Run all of them. What one raises ends the others and is raised.

        Being cancelled, it cancels what is open.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for job in jobs:
                    await self._wait_for_need()
                    await self._room.acquire()
                    self._opening += 1
                    group.create_task(self._one(job))
        except BaseExceptionGroup as failures:
            raise cause_of(failures) from failures

    async def _wait_for_need(self) -> None:
        while True:
            await self._session.wait_until_idle()
            if not self._opening:
                return
            self._opened.clear()
            await self._opened.wait()

    async def _one(self, job: Job) -> None:
        opened = False

        def mark() -> None:
            nonlocal opened
            if not opened:
                opened = True
                self._opening -= 1
                self._opened.set()

        try:
            await job(mark)
        finally:
            mark()
            self._room.release()
