"""Slots go to the call that a finished answer needs most."""

from __future__ import annotations

import asyncio

from pacore.sampling.slots import CallSlots


async def test_a_later_round_is_served_before_an_earlier_one_and_then_by_arrival() -> None:
    slots = CallSlots(1)
    await slots.acquire()
    served: list[str] = []

    async def wait(name: str, priority: float) -> None:
        await slots.acquire(priority)
        served.append(name)
        slots.release()

    tasks = [
        asyncio.create_task(wait(*waiting)) for waiting in (("a1", -1), ("b1", -1), ("c2", -2), ("d3", -3))
    ]
    await asyncio.sleep(0)
    slots.release()
    await asyncio.gather(*tasks)
    assert served == ["d3", "c2", "a1", "b1"]


async def test_no_more_than_the_limit_are_held() -> None:
    slots, held, most = CallSlots(3), 0, 0

    async def work() -> None:
        nonlocal held, most
        await slots.acquire()
        held += 1
        most = max(most, held)
        await asyncio.sleep(0)
        held -= 1
        slots.release()

    await asyncio.gather(*(work() for _ in range(20)))
    assert (most, slots.free) == (3, 3)


async def test_a_cancelled_waiter_takes_no_slot_with_it() -> None:
    slots = CallSlots(1)
    await slots.acquire()
    waiting = asyncio.create_task(slots.acquire())
    late = asyncio.create_task(slots.acquire())
    await asyncio.sleep(0)
    waiting.cancel()
    slots.release()
    await late
    slots.release()
    assert slots.free == 1


async def test_a_waiter_cancelled_just_as_it_is_served_gives_its_slot_back() -> None:
    slots = CallSlots(1)
    await slots.acquire()
    waiting = asyncio.create_task(slots.acquire())
    await asyncio.sleep(0)
    slots.release()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert slots.free == 1


async def test_idle_tells_that_a_slot_is_free_and_nobody_waits() -> None:
    slots = CallSlots(1)
    assert slots.idle.is_set()
    await slots.acquire()
    assert not slots.idle.is_set()
    slots.release()
    assert slots.idle.is_set()
