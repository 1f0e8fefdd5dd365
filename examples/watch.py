"""Watch a run think: print each trajectory's conclusion as it ends, and stop when you have seen enough."""

import asyncio
from contextlib import aclosing

import pacore
from pacore.events import RoundFinished, RunFinished, TrajectoryFinished


async def main() -> None:
    async with aclosing(pacore.stream("Name three uses of parallel thinking.", schedule="4,2")) as events:
        async for event in events:
            if isinstance(event, TrajectoryFinished):
                thought = event.trajectory
                print(f"{thought.round}.{thought.index} {thought.status}: {thought.content[:70]!r}")
            elif isinstance(event, RoundFinished):
                print(f"round {event.round} left {len(event.messages)} messages")
            elif isinstance(event, RunFinished):
                print(event.result.answer)


asyncio.run(main())
