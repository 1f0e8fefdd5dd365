"""Seeds derived from names, so that every random choice of a run follows from its one seed."""

from __future__ import annotations

import hashlib
import random


def derive_seed(*parts: str | int) -> int:
    """Hash ``parts`` into a seed in ``[0, 2**31)``, the range that every engine takes.

    The parts are joined with a separator that no part of ours contains, so ("a", 12) and ("a1", 2)
    differ.
    """
    text = "\x1f".join(str(part) for part in parts)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 33


def derive_random(*parts: str | int) -> random.Random:
    """A generator of random numbers seeded by ``derive_seed(*parts)``."""
    return random.Random(derive_seed(*parts))
