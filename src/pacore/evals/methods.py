"""What is compared: schedules by name, and self-consistency estimated from a pool."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from pacore.coordination.schedules import parse_schedule
from pacore.errors import ConfigError
from pacore.types import Schedule

_VOTE = re.compile(r"self-consistency@(\d+)")


class Method(Struct, frozen=True, kw_only=True):
    """One way to spend compute. With a ``schedule`` it is run; with ``votes`` alone it is estimated.

    ``votes`` is the k of self-consistency@k: the majority among k trajectories of the pool, resampled, as
    the paper does, at no further cost.
    """

    name: str
    schedule: Schedule | None = None
    votes: int | None = None


def parse_methods(text: str, tables: Mapping[str, dict[str, Any]] | None = None) -> list[Method]:
    """Read ``low,medium,self-consistency@16,[2,2],single``: names of schedules, widths in brackets, votes.

    Raises ConfigError for what is none of these, and for the same method twice.
    """
    methods: list[Method] = []
    for name in _split(text):
        vote = _VOTE.fullmatch(name)
        if vote is not None:
            if int(vote[1]) < 1:
                raise ConfigError(f"{name}: at least one trajectory votes")
            method = Method(name=name, votes=int(vote[1]))
        else:
            widths = name[1:-1] if re.fullmatch(r"\[[\d,\s]+\]", name) else name
            method = Method(name=name, schedule=parse_schedule(widths, tables or {}))
        if any(known.name == name for known in methods):
            raise ConfigError(f"the method {name!r} is named twice")
        methods.append(method)
    if not methods:
        raise ConfigError("name at least one method, such as low or self-consistency@16")
    return methods


def _split(text: str) -> list[str]:
    """At commas that stand in no brackets."""
    return [name.strip() for name in re.split(r",(?![^\[]*\])", text) if name.strip()]
