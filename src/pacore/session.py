"""Everything that the runs of one sitting share: connections, slots, and the ledger."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TypeAlias

from pacore.config import Budget, Endpoint, Retries, checked
from pacore.coordination.agreement import Equivalence
from pacore.coordination.compaction import Compaction
from pacore.coordination.rounds import RunContext
from pacore.errors import ConfigError, EndpointRefusedError
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

DEFAULT = "(the run's own)"
"""The key of the endpoint for rounds that name none; no table of pacore.toml is called like that."""

DEFAULT_CONCURRENCY = 64

EndpointLike: TypeAlias = Endpoint | Sampler | str
"""An endpoint: its settings, its base URL, or a sampler of one's own."""


class Session:
    """Samplers under the limits of one sitting; made by :func:`open_session`."""

    def __init__(self, concurrency: int, budget: Budget) -> None:
        self.slots = CallSlots(concurrency)
        self.budget = budget
        self.ledger = Ledger(budget)
        self.samplers: dict[str, Dispatcher] = {}
        self._all_slots = [self.slots]
        self.models: dict[str, str] = {}

    def add(
        self, name: str, sampler: Sampler, *, concurrency: int, retries: Retries, label: str = ""
    ) -> None:
        """Put a sampler under the session's limits as the endpoint ``name``.

        Raises ConfigError where a money budget would have to count calls without prices.
        """
        if self.budget.usd is not None and sampler.capabilities.prices is None:
            raise ConfigError(
                f"a budget in dollars needs the prices of every endpoint; {label or 'the endpoint'} has "
                "none: write prices = {prompt = …, completion = …} (dollars per million tokens) for it"
            )
        slots = CallSlots(concurrency)
        self._all_slots.append(slots)
        self.samplers[name] = Dispatcher(
            sampler,
            slots=slots,
            run_slots=self.slots,
            retries=retries,
            ledger=self.ledger,
            name=label,
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
        samplers: dict[str, Sampler] = {**self.samplers}
        if recorded:
            prices = {sampler.name: sampler.capabilities.prices for sampler in self.samplers.values()}
            for trajectory in recorded:
                self.ledger.record(trajectory.usage, prices.get(trajectory.endpoint))
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
        names = _names_in(schedules)
        wanted = {DEFAULT: _checked(endpoint)}
        wanted.update((name, _checked(_named(name, others or {}))) for name in names)
        if concurrency is not None and concurrency < 1:
            raise ConfigError(f"concurrency is at least 1 call in flight, not {concurrency}")
        distinct = [
            item for place, item in enumerate(wanted.values()) if item not in list(wanted.values())[:place]
        ]
        limit = concurrency or sum(_concurrency(item) for item in distinct)
        session = Session(limit, budget or Budget())
        for name, item in wanted.items():
            twin = next((other for other, known in wanted.items() if known == item), name)
            if twin in session.samplers:
                # One endpoint under two names has one limit.
                session.samplers[name] = session.samplers[twin]
            else:
                await _add(
                    session, stack, name, item, limit, only_fallback=names.get(name, False), report=report
                )
        yield session


async def _add(
    session: Session,
    stack: contextlib.AsyncExitStack,
    name: str,
    item: Endpoint | Sampler,
    limit: int,
    *,
    only_fallback: bool,
    report: Report,
) -> None:
    if not isinstance(item, Endpoint):
        session.add(name, item, concurrency=limit, retries=Retries(), label=name if name != DEFAULT else "")
        return
    sampler = await stack.enter_async_context(EndpointSampler(item))
    try:
        await sampler.probe()
    except EndpointRefusedError as error:
        if not only_fallback:
            if name == DEFAULT:
                raise
            raise EndpointRefusedError(f"endpoint {item.name!r}: {error}", status=error.status) from error
        report(f"the fallback endpoint {item.name!r} is not there now: {error}")
    session.models[item.name] = sampler.model
    concurrency = item.concurrency or limit
    session.add(name, sampler, concurrency=concurrency, retries=item.retries, label=item.name)


def _checked(item: EndpointLike) -> Endpoint | Sampler:
    if isinstance(item, str):
        return Endpoint(base_url=item)
    if isinstance(item, Endpoint):
        return checked(item, "endpoint")
    if not callable(getattr(item, "sample", None)):
        raise ConfigError(f"an endpoint is an Endpoint, a base URL or a sampler, not {item!r:.80}")
    return item


def _names_in(schedules: Iterable[Schedule]) -> dict[str, bool]:
    """The endpoints that schedules name, and whether each is needed as a fallback only."""
    names: dict[str, bool] = {}
    for schedule in schedules:
        if schedule.fallback is not None:
            names.setdefault(schedule.fallback, True)
        for spec in (*schedule.rounds, schedule.final):
            names.update(dict.fromkeys(spec.endpoints, False))
    return names


def _named(name: str, others: Mapping[str, EndpointLike]) -> EndpointLike:
    if name in others:
        return others[name]
    known = ", ".join(sorted(others)) or "none"
    raise ConfigError(f"the schedule names the endpoint {name!r}, which is not configured; known: {known}")


def _concurrency(item: Endpoint | Sampler) -> int:
    return (item.concurrency if isinstance(item, Endpoint) else None) or DEFAULT_CONCURRENCY


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr)
