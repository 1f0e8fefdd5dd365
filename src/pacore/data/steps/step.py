"""What a step is: records in, and out of it each of them, or why it fell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct

from pacore.data.record import Record


class Fallen(Struct, frozen=True, kw_only=True):
    """A record that a step left out: a stable ``reason``, and in ``detail`` what a reader needs to see it."""

    id: str
    reason: str
    detail: str = ""


Step: TypeAlias = Callable[[Iterable[Record]], Iterator[Record | Fallen]]
"""Order is kept: for every record that goes in, itself (perhaps with more in it) or a Fallen comes out."""
