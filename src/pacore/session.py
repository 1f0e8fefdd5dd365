"""Everything that the runs of one sitting share: connections, slots, and the ledger."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TypeAlias

from pacore.config import Budget, Endpoint, Retries
from pacore.coordination.agreement import Equivalence
from pacore.coordination.compaction import Compaction
from pacore.coordination.rounds import RunContext
from pacore.errors import ConfigError
from pacore.sampling.budget import Ledger
from pacore.sampling.bundled_model import Report
from pacore.sampling.dispatch import Dispatcher
from pacore.sampling.embedded import NOTICE, EngineSettings, embedded_endpoint
from pacore.sampling.openai import EndpointSampler
from pacore.sampling.replay import ReplaySampler
from pacore.sampling.sampler import Sampler
from pacore.sampling.slots import CallSlots
from pacore.types import SamplingParams, Schedule, Trajectory
from pacore.verifiers.math.equivalence import MathEquivalence

DEFAULT = "default"
DEFAULT_CONCURRENCY = 64

EndpointLike: TypeAlias = Endpoint | Sampler | str
"""An endpoint: its settings, its base URL, or a sampler of one's own."""


class Session:
    """Samplers under the limits of one sitting; made by :func:`open_session`."""

    def __init__(self, concurrency: int, budget: Budget) -> None:
        self.slots = CallSlots(concurrency)
        self.budget = budget
        self.ledger = Ledger(budget)
        self.samplers: dict[str, Sampler] = {}
        self._all_slots = [self.slots]

    def add(self, name: str, sampler: Sampler, *, concurrency: int, retries: Retries) -> None:
        """Put a sampler under the session's limits as the endpoint ``name``."""
        slots = CallSlots(concurrency)
        self._all_slots.append(slots)
        self.samplers[name] = Dispatcher(
            sampler,
            slots=slots,
            run_slots=self.slots,
            retries=retries,
            ledger=self.ledger,
            name=name,
        )

    async def wait_until_idle(self) -> None:
        """Wait for a moment in which a slot is free and no call waits for one, here or at an endpoint."""
        while not all(slots.idle.is_set() for slots in self._all_slots):
            for slots in self._all_slots:
                await slots.idle.wait()

    def context(
        self,
        *,
        seed: int = 0,
        sampling: SamplingParams | None = None,
        recorded: Iterable[Trajectory] = (),
        equivalence: Equivalence | None = None,
        compactions: Mapping[str, Compaction] | None = None,
        progress: bool = True,
        seconds: float | None = None,
    ) -> RunContext:
        """What the loop needs for one problem. ``recorded`` trajectories are replayed, not made again."""
        recorded = list(recorded)
        samplers = dict(self.samplers)
        if recorded:
            for trajectory in recorded:
                self.ledger.record(trajectory.usage, None)
            # One replay for all endpoints: a trajectory's place in the run names it, not who made it.
            samplers = {name: ReplaySampler(sampler, recorded) for name, sampler in samplers.items()}
        return RunContext(
            samplers=samplers,
            default=DEFAULT,
            seed=seed,
            sampling=sampling or SamplingParams(),
            budget=Budget(seconds=seconds, final_share=self.budget.final_share),
            ledger=self.ledger,
            equivalence=equivalence or MathEquivalence(),
            compactions=compactions or {},
            progress=progress,
        )


@contextlib.asynccontextmanager
async def open_session(
    endpoint: EndpointLike | None = None,
    *,
    others: Mapping[str, EndpointLike] | None = None,
    schedules: Iterable[Schedule] = (),
    concurrency: int | None = None,
    budget: Budget | None = None,
    engine: EngineSettings | None = None,
    report: Report | None = None,
) -> AsyncIterator[Session]:
    """Connect to what the runs need. With no ``endpoint`` the embedded engine is started.

    ``others`` are further endpoints by name; of these, the ones that ``schedules`` name are opened.
    ``concurrency`` limits calls in flight over all endpoints; 64 where neither it nor an endpoint says.
    Endpoints are asked at once what they serve, so that a wrong address, key or model is told before
    anything is spent.
    """
    report = report or _to_stderr
    async with contextlib.AsyncExitStack() as stack:
        if endpoint is None:
            endpoint = await stack.enter_async_context(
                embedded_endpoint(engine or EngineSettings(), report=report)
            )
            if engine is None or engine.gguf is None:
                report(NOTICE)
        wanted = {DEFAULT: endpoint}
        for name in _names_in(schedules):
            if name != DEFAULT:
                wanted[name] = _named(name, others or {})
        limit = concurrency or max(_concurrency(item) for item in wanted.values())
        session = Session(limit, budget or Budget())
        for name, item in wanted.items():
            await _add(session, stack, name, item, limit)
        yield session


async def _add(
    session: Session, stack: contextlib.AsyncExitStack, name: str, item: EndpointLike, limit: int
) -> None:
    if isinstance(item, str):
        item = Endpoint(base_url=item)
    if not isinstance(item, Endpoint):
        session.add(name, item, concurrency=limit, retries=Retries())
        return
    sampler = await stack.enter_async_context(EndpointSampler(item))
    await sampler.probe()
    session.add(name, sampler, concurrency=item.concurrency or limit, retries=item.retries)


def _names_in(schedules: Iterable[Schedule]) -> list[str]:
    names: dict[str, None] = {}
    for schedule in schedules:
        for spec in (*schedule.rounds, schedule.final):
            names.update(dict.fromkeys(spec.endpoints))
        if schedule.fallback is not None:
            names[schedule.fallback] = None
    return list(names)


def _named(name: str, others: Mapping[str, EndpointLike]) -> EndpointLike:
    if name in others:
        return others[name]
    known = ", ".join(sorted(others)) or "none"
    raise ConfigError(f"the schedule names the endpoint {name!r}, which is not configured; known: {known}")


def _concurrency(item: EndpointLike) -> int:
    return (item.concurrency if isinstance(item, Endpoint) else None) or DEFAULT_CONCURRENCY


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr)
