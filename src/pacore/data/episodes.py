"""The message set of a training episode: how many of a pool's messages, which, and in what order."""

from __future__ import annotations

from pacore.data.record import Record, Response
from pacore.errors import ConfigError, ProblemError
from pacore.seeds import derive_random


def draw_responses(
    record: Record, number: int, *, low: int = 16, high: int = 24, seed: int = 0
) -> list[Response]:
    """The message set of episode ``number``: |M| uniform in [low, high], drawn without replacement, in random
    order.

    A function of seed, record and number alone, so that a training run can be resumed. Where the pool is
    smaller than |M|, all of it is taken; with ``high`` 0 an episode reads no message (plain reinforcement
    learning on the problem). Raises ProblemError for a record without messages, ConfigError for bounds that
    are none.
    """
    if not 0 <= low <= high:
        raise ConfigError(f"|M| is drawn from [{low}, {high}]; give 0 <= low <= high")
    if high == 0:
        return []
    if not record.pool:
        raise ProblemError(f"record {record.id!r} has no message to draw; give it a pool first")
    draw = derive_random("episode", seed, record.id, number)
    return draw.sample(record.pool, min(draw.randint(low, high), len(record.pool)))


def draw_messages(record: Record, number: int, *, low: int = 16, high: int = 24, seed: int = 0) -> list[str]:
    """The texts of :func:`draw_responses`."""
    return [response.content for response in draw_responses(record, number, low=low, high=high, seed=seed)]
