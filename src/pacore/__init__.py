"""Parallel coordinated reasoning: many trajectories think at once, and their conclusions are synthesised.

    import pacore

    result = await pacore.solve("How many positive divisors does 360 have?", schedule="low")

Names are loaded when they are first used, so that ``import pacore`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pacore.version import __version__

if TYPE_CHECKING:
    from pacore.api import solve, solve_sync, stream
    from pacore.config import Budget, Endpoint, Prices, Retries, Timeouts
    from pacore.coordination.agreement import Equivalence
    from pacore.coordination.compaction import Compaction
    from pacore.coordination.schedules import parse_schedule
    from pacore.errors import PacoreError
    from pacore.problems import read_problem
    from pacore.sampling.embedded import EngineSettings
    from pacore.sampling.pool import PoolFile, PoolSampler
    from pacore.sampling.sampler import Call, Sampler
    from pacore.sampling.scripted import Line, ScriptedSampler
    from pacore.traces.trace import Trace, read_trace
    from pacore.types import (
        AgreementStop,
        Problem,
        Quorum,
        Result,
        RoundSpec,
        SamplingParams,
        Schedule,
        Trajectory,
    )

_HOMES = {
    "pacore.api": ("solve", "solve_sync", "stream"),
    "pacore.config": ("Budget", "Endpoint", "Prices", "Retries", "Timeouts"),
    "pacore.coordination.agreement": ("Equivalence",),
    "pacore.coordination.compaction": ("Compaction",),
    "pacore.coordination.schedules": ("parse_schedule",),
    "pacore.errors": ("PacoreError",),
    "pacore.problems": ("read_problem",),
    "pacore.sampling.embedded": ("EngineSettings",),
    "pacore.sampling.pool": ("PoolFile", "PoolSampler"),
    "pacore.sampling.sampler": ("Call", "Sampler"),
    "pacore.sampling.scripted": ("Line", "ScriptedSampler"),
    "pacore.traces.trace": ("Trace", "read_trace"),
    "pacore.types": (
        "AgreementStop",
        "Problem",
        "Quorum",
        "Result",
        "RoundSpec",
        "SamplingParams",
        "Schedule",
        "Trajectory",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AgreementStop",
    "Budget",
    "Call",
    "Compaction",
    "Endpoint",
    "EngineSettings",
    "Equivalence",
    "Line",
    "PacoreError",
    "PoolFile",
    "PoolSampler",
    "Prices",
    "Problem",
    "Quorum",
    "Result",
    "Retries",
    "RoundSpec",
    "Sampler",
    "SamplingParams",
    "Schedule",
    "ScriptedSampler",
    "Timeouts",
    "Trace",
    "Trajectory",
    "__version__",
    "parse_schedule",
    "read_problem",
    "read_trace",
    "solve",
    "solve_sync",
    "stream",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'pacore' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
