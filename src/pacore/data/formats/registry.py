"""All formats by name, and which of them a row is in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pacore.config import unknown_name
from pacore.data.formats.deepcoder import DEEPCODER
from pacore.data.formats.fields import Format
from pacore.data.formats.livecodebench import LIVECODEBENCH
from pacore.data.formats.pacore import PACORE
from pacore.data.formats.train8k import TRAIN8K
from pacore.data.formats.trl import TRL
from pacore.data.formats.verifiers import VERIFIERS
from pacore.data.formats.verl import VERL
from pacore.errors import ConfigError

_IN_ORDER = (VERL, LIVECODEBENCH, DEEPCODER, TRAIN8K, PACORE, TRL, VERIFIERS)
FORMATS: Mapping[str, Format] = {dialect.name: dialect for dialect in _IN_ORDER}


def named_format(name: str) -> Format:
    """The format called ``name``. Raises ConfigError, with the nearest name, where there is none."""
    if name not in FORMATS:
        raise ConfigError(unknown_name("format", name, FORMATS))
    return FORMATS[name]


def detect_format(row: Mapping[str, Any]) -> Format:
    """The format whose keys a row has; pacore's own where none is recognised."""
    return next((dialect for dialect in _IN_ORDER if dialect.recognises(row)), PACORE)
