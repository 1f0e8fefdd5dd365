"""``pacore data``: corpora for training synthesis, each step a command."""

from __future__ import annotations

from pacore.cli.data.app import data

__all__ = ["data"]
