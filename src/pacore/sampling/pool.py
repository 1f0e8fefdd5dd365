"""Drawing first-round trajectories from a pool of cached ones, as the paper's evaluation does."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from pacore.errors import ProblemError
from pacore.sampling.sampler import Call, Capabilities, Sampler, Watcher, classify, estimate_usage
from pacore.sampling.thinking import split_thinking
from pacore.seeds import derive_random
from pacore.types import Trajectory

_OPEN_PROBLEMS = 4


class Pools(Protocol):
    """Cached responses by problem id; a response is text or an object with ``content``."""

    def __getitem__(self, problem_id: str) -> Sequence[Any]:
        """The responses of one problem. Raises KeyError where there are none."""


class PoolSampler:
    """Draws the trajectories of round 1 without replacement from ``pools``; later rounds are generated.

    The paper draws from 512 cached trajectories a problem. Which are drawn follows from ``seed`` and the
    problem's id alone.
    """

    def __init__(self, pools: Pools, inner: Sampler, *, seed: int = 0) -> None:
        self._pools = pools
        self._inner = inner
        self._seed = seed

    @property
    def capabilities(self) -> Capabilities:
        """Those of the sampler behind."""
        return self._inner.capabilities

    async def sample(self, call: Call, watcher: Watcher) -> Trajectory:
        """A cached trajectory in round 1, a new one later. Raises ProblemError for a pool too small."""
        if call.round != 1 or call.purpose != "reason":
            return await self._inner.sample(call, watcher)
        try:
            pool = self._pools[call.problem_id]
        except KeyError:
            raise ProblemError(f"there is no pool for the problem {call.problem_id!r}") from None
        if call.index >= len(pool):
            raise ProblemError(
                f"the pool of problem {call.problem_id!r} holds {len(pool)} responses; "
                f"drawing without replacement, a round of {call.index + 1} needs more"
            )
        order = list(range(len(pool)))
        derive_random("pool", self._seed, call.problem_id).shuffle(order)
        return self._trajectory(call, pool[order[call.index]])

    def _trajectory(self, call: Call, response: Any) -> Trajectory:
        if isinstance(response, Trajectory):
            return msgspec.structs.replace(
                response, round=call.round, index=call.index, references=call.references, source="pool"
            )
        fields: Mapping[str, Any] = response if isinstance(response, dict) else {"content": response}
        content = fields.get("content")
        if not isinstance(content, str):
            raise ProblemError(
                f"a response in the pool of problem {call.problem_id!r} must be text or an object with "
                f"'content', not {response!r:.80}"
            )
        split = split_thinking(content)
        reasoning = fields.get("reasoning") or fields.get("reasoning_content") or split.reasoning
        finish_reason = fields.get("finish_reason", "stop")
        return call.trajectory(
            classify(split.conclusion, reasoning, finish_reason=finish_reason, closed=split.closed),
            content=split.conclusion,
            reasoning=reasoning,
            finish_reason=finish_reason,
            usage=estimate_usage(
                call.prompt.chars, split.conclusion, reasoning, self.capabilities.chars_per_token
            ),
            source="pool",
        )


class PoolFile:
    """A JSONL file of ``{"id", "responses": [...]}`` as pools, read a problem at a time.

    Only the place of each line is kept, and the few problems in use.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[str, int] = {}
        self._recent: OrderedDict[str, Sequence[Any]] = OrderedDict()
        with path.open("rb") as lines:
            place = 0
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    self._places[self._id_of(line, number)] = place
                place += len(line)

    def __getitem__(self, problem_id: str) -> Sequence[Any]:
        """The responses of one problem. Raises KeyError where there are none."""
        if problem_id not in self._recent:
            with self._path.open("rb") as lines:
                lines.seek(self._places[problem_id])
                self._recent[problem_id] = msgspec.json.decode(lines.readline(), type=_PoolLine).responses
            if len(self._recent) > _OPEN_PROBLEMS:
                self._recent.popitem(last=False)
        self._recent.move_to_end(problem_id)
        return self._recent[problem_id]

    def _id_of(self, line: bytes, number: int) -> str:
        try:
            return str(msgspec.json.decode(line, type=_PoolId).id)
        except msgspec.DecodeError as error:
            raise ProblemError(
                f"{self._path}:{number}: not a pool line {{id, responses}}: {error}"
            ) from error


class _PoolId(msgspec.Struct):
    id: str | int


class _PoolLine(msgspec.Struct):
    responses: list[Any]
