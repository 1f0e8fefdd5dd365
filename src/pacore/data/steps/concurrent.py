"""Asynchronous work on records as a step: many at a time, results in the order of the records."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

from pacore.errors import cause_of

Item = TypeVar("Item")
Made = TypeVar("Made")


async def in_order(
    work: Callable[[Item], Awaitable[Made]], items: Iterable[Item], *, limit: int
) -> AsyncIterator[Made]:
    """Yield what ``work`` makes of each item, in their order, with up to ``limit`` under way or waiting.

    What one raises ends the others and is raised.
    """
    waiting: deque[asyncio.Task[Made]] = deque()
    room = asyncio.Semaphore(limit)

    async def one(item: Item) -> Made:
        try:
            return await work(item)
        finally:
            room.release()

    try:
        async with asyncio.TaskGroup() as group:
            for item in items:
                await room.acquire()
                waiting.append(group.create_task(one(item)))
                while waiting and (waiting[0].done() or len(waiting) > 4 * limit):
                    yield await waiting.popleft()
            while waiting:
                yield await waiting.popleft()
    except BaseExceptionGroup as failures:
        raise cause_of(failures) from failures
