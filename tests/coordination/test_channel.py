"""The channel keeps order and text, and its deadline holds also while events keep coming."""

from __future__ import annotations

import asyncio

import pytest

from pacore.coordination.channel import CallWatcher, Channel
from pacore.events import RoundStarted, TrajectoryProgress
from pacore.sampling.sampler import Capabilities
from support.watching import a_call


def watcher_on(channel: Channel) -> CallWatcher:
    return CallWatcher(channel, a_call(), Capabilities(), progress=True)


async def test_text_that_waits_for_a_slow_reader_is_merged_and_none_is_lost() -> None:
    channel = Channel()
    watcher = watcher_on(channel)
    for number in range(100):
        watcher.text(f"{number},", "r")
    event = await channel.get(None)
    assert isinstance(event, TrajectoryProgress)
    assert event.content == "".join(f"{number}," for number in range(100))
    assert event.reasoning == "r" * 100
    assert not channel


async def test_a_past_deadline_ends_the_wait_even_with_events_at_hand() -> None:
    channel = Channel()
    channel.put(RoundStarted(round=1, width=1))
    with pytest.raises(TimeoutError):
        await channel.get(asyncio.get_running_loop().time() - 1)
    assert isinstance(await channel.get(None), RoundStarted)


async def test_a_failure_is_raised_in_its_place_in_the_order() -> None:
    channel = Channel()
    channel.put(RoundStarted(round=1, width=1))
    channel.put(ValueError("later"))
    assert isinstance(await channel.get(None), RoundStarted)
    with pytest.raises(ValueError, match="later"):
        await channel.get(None)


async def test_what_a_void_attempt_said_is_not_shown_again_but_its_tokens_count() -> None:
    channel = Channel()
    watcher = watcher_on(channel)
    watcher.text("x" * 40, "")
    watcher.retrying(1, "cut", 0.0, 10)
    watcher.text("y" * 40, "")
    texts = [
        event.content
        for event in [await channel.get(None), await channel.get(None)]
        if isinstance(event, TrajectoryProgress)
    ]
    assert "".join(texts) == "y" * 40
    assert watcher.tokens == 20
