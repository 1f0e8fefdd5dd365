"""``pacore eval``: methods compared on benchmarks at equal compute."""

from __future__ import annotations

from pacore.cli.eval.app import eval  # noqa: A004 - a verb's object is called as the verb

__all__ = ["eval"]
