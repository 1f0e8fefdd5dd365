"""Work on chunks of records on all cores, in order, with a few chunks ahead and no more."""

from __future__ import annotations

import itertools
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")

_AHEAD = 2


def map_chunks(
    work: Callable[[list[Any]], Made],
    items: Iterable[Item],
    *,
    shown: Callable[[Item], Any],
    size: int = 2000,
    processes: int | None = None,
    begin: Callable[..., None] | None = None,
    given: tuple[Any, ...] = (),
) -> Iterator[tuple[list[Item], Made]]:
    """Yield each chunk of ``items`` with what ``work`` made of ``shown`` of each.

    ``work`` and ``begin`` (called with ``given`` in every process first) are functions of a module, as the
    processes import them. A short input is worked on right here.
    """
    count = processes or os.cpu_count() or 1
    chunks = _chunks(items, size)
    first, second = next(chunks, None), next(chunks, None)
    if first is None:
        return
    if second is None or count == 1:
        if begin is not None:
            begin(*given)
        for chunk in itertools.chain([first], [second] if second else [], chunks):
            yield chunk, work([shown(item) for item in chunk])
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context, initializer=begin, initargs=given) as pool:
        waiting: deque[tuple[list[Item], Future[Made]]] = deque()
        try:
            for chunk in itertools.chain([first, second], chunks):
                waiting.append((chunk, pool.submit(work, [shown(item) for item in chunk])))
                if len(waiting) > count * _AHEAD:
                    done, future = waiting.popleft()
                    yield done, future.result()
            while waiting:
                done, future = waiting.popleft()
                yield done, future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


def map_threads(
    work: Callable[[Item], Made], items: Iterable[Item], *, limit: int | None = None
) -> Iterator[Made]:
    """Yield what ``work`` makes of each item, in order, with ``limit`` threads and a few items ahead.

    For work that waits for other processes, as running programs does.
    """
    count = limit or os.cpu_count() or 1
    with ThreadPoolExecutor(count) as pool:
        waiting: deque[Future[Made]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > count * _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
