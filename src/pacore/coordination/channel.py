"""From many calls at once to one stream of events, in order, without losing text to a slow reader."""

from __future__ import annotations

import asyncio
from collections import deque

from pacore.events import Event, TrajectoryProgress, TrajectoryRetrying, TrajectoryStarted
from pacore.sampling.sampler import Call, Capabilities


class Channel:
    """Events waiting for the reader. Text that is still waiting is merged with what follows it."""

    def __init__(self) -> None:
        self._items: deque[Event | CallWatcher | BaseException] = deque()
        self._wake: asyncio.Future[None] | None = None

    def put(self, item: Event | CallWatcher | BaseException) -> None:
        """Add an event; an exception is raised in the reader."""
        self._items.append(item)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def __bool__(self) -> bool:
        return bool(self._items)

    async def get(self, deadline: float | None) -> Event:
        """The next event. Raises TimeoutError at ``deadline`` (event loop time) if there is none."""
        # Checked also while events keep coming: a stream that never pauses must not outlive its deadline.
        if deadline is not None and asyncio.get_running_loop().time() >= deadline:
            raise TimeoutError
        if not self._items:
            await self._wait(deadline)
        item = self._items.popleft()
        if isinstance(item, CallWatcher):
            return item.drain()
        if isinstance(item, BaseException):
            raise item
        return item

    async def _wait(self, deadline: float | None) -> None:
        self._wake = asyncio.get_running_loop().create_future()
        try:
            if deadline is None:
                await self._wake
            else:
                async with asyncio.timeout_at(deadline):
                    await self._wake
        finally:
            self._wake = None


class CallWatcher:
    """Watches one call: turns what it is told into events, and counts what is being generated."""

    def __init__(self, channel: Channel, call: Call, capabilities: Capabilities, *, progress: bool) -> None:
        self._channel = channel
        self.call = call
        self._capabilities = capabilities
        self._progress = progress
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._queued = False
        self._chars = 0
        self._voided_tokens = 0
        self.started_call = False

    @property
    def tokens(self) -> int:
        """Estimated tokens generated so far, void attempts included."""
        return self._voided_tokens + round(self._chars / self._capabilities.chars_per_token)

    def started(self) -> None:
        """The call has its slot."""
        self.started_call = True
        if not self._progress:
            return
        call = self.call
        self._channel.put(
            TrajectoryStarted(
                round=call.round, index=call.index, purpose=call.purpose, references=call.references
            )
        )

    def text(self, content: str, reasoning: str) -> None:
        """More text arrived."""
        self._chars += len(content) + len(reasoning)
        if not self._progress:
            return
        if content:
            self._content.append(content)
        if reasoning:
            self._reasoning.append(reasoning)
        if not self._queued:
            self._queued = True
            self._channel.put(self)

    def retrying(self, attempt: int, reason: str, wait_s: float, generated_tokens: int) -> None:
        """The attempt's text is void; its tokens still count."""
        self._voided_tokens += generated_tokens
        self._chars = 0
        self._content.clear()
        self._reasoning.clear()
        call = self.call
        self._channel.put(
            TrajectoryRetrying(
                round=call.round,
                index=call.index,
                purpose=call.purpose,
                attempt=attempt,
                reason=reason,
                wait_s=wait_s,
            )
        )

    def drain(self) -> TrajectoryProgress:
        """All text since the last time, as one event."""
        self._queued = False
        content, reasoning = "".join(self._content), "".join(self._reasoning)
        self._content.clear()
        self._reasoning.clear()
        call = self.call
        return TrajectoryProgress(
            round=call.round,
            index=call.index,
            purpose=call.purpose,
            content=content,
            reasoning=reasoning,
            tokens=self.tokens,
        )
