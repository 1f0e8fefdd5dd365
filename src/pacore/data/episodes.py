"""The message set of a training episode: how many of a pool's messages, which, and in what order."""

from __future__ import annotations

from pacore.data.record import Record
from pacore.errors import ProblemError
from pacore.seeds import derive_random


def draw_messages(record: Record, number: int, *, low: int = 16, high: int = 24, seed: int = 0) -> list[str]:
    """The messages of episode ``number``: |M| uniform in [low, high], drawn without replacement, in random
    order.

    A function of seed, record and number alone, so that a training run can be resumed. Where the pool is
    smaller than |M|, all of it is taken. Raises ProblemError for a record without messages.
    """
    if not record.pool:
        raise ProblemError(f"record {record.id!r} has no message to draw; give it a pool first")
    draw = derive_random("episode", seed, record.id, number)
    size = min(draw.randint(low, high), len(record.pool))
    return [response.content for response in draw.sample(record.pool, size)]
