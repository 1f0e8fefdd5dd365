"""The miniature model as a sampler: digit locks through the same loop, trace and views as any endpoint."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from pacore.coordination.prompt import task_text
from pacore.errors import CallRejectedError
from pacore.sampling.sampler import Call, Capabilities, Watcher, classify
from pacore.seeds import derive_seed
from pacore.training.miniature import locks
from pacore.training.miniature.thinking import Thought, think
from pacore.training.network import Network
from pacore.types import Problem, Trajectory, Usage


@dataclass(frozen=True, slots=True)
class _Waiting:
    call: Call
    prompt: list[int]
    future: asyncio.Future[Thought]


class MiniatureSampler:
    """Answers calls by a miniature model; calls that come together are sampled together.

    The sampling parameters are the method's own (temperature 1, top_p 1) whatever a call says. What a batch
    draws follows from the seeds of its calls.
    """

    def __init__(self, model: Network, name: str) -> None:
        self._model = model
        self._name = name
        self._capabilities = Capabilities(served_models=(name,), separates_reasoning=True)
        self._waiting: list[_Waiting] = []
        self._worker: asyncio.Task[None] | None = None

    @property
    def capabilities(self) -> Capabilities:
        """The model's name, and that its thinking is told apart."""
        return self._capabilities

    async def sample(self, call: Call, watcher: Watcher) -> Trajectory:
        """Generate one trajectory. Raises CallRejectedError for a prompt without a lock."""
        prompt = locks.encode(task_text(Problem(id=call.problem_id, messages=call.prompt.messages)))
        if not any(locks.VOCABULARY[token] in locks.NAMES for token in prompt):
            raise CallRejectedError("the miniature model reads digit locks alone, and the prompt has none")
        watcher.started()
        started = time.time()
        future: asyncio.Future[Thought] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(call, prompt, future))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        thought = await future
        trajectory = self._trajectory(call, len(prompt), thought, started)
        watcher.text(trajectory.content, trajectory.reasoning)
        return trajectory

    async def _work(self) -> None:
        while self._waiting:
            # The calls of a round arrive in one turn of the loop; the next turn sees them all.
            await asyncio.sleep(0)
            batch, self._waiting = self._waiting, []
            batch = [waiting for waiting in batch if not waiting.future.cancelled()]
            if not batch:
                continue
            seed = derive_seed("batch", *(waiting.call.seed for waiting in batch))
            try:
                thoughts = await asyncio.to_thread(
                    think, self._model, [waiting.prompt for waiting in batch], 1, seed=seed
                )
            except Exception as error:
                for waiting in batch:
                    if not waiting.future.done():
                        waiting.future.set_exception(error)
                continue
            for waiting, found in zip(batch, thoughts, strict=True):
                if not waiting.future.done():
                    waiting.future.set_result(found[0])

    def _trajectory(self, call: Call, prompt: int, thought: Thought, started: float) -> Trajectory:
        reasoning, closed, content = thought.text.partition("</think>")
        ended = thought.tokens[-1:] == (locks.END_TOKEN,)
        finish = "stop" if ended else "length"
        return call.trajectory(
            classify(content, reasoning, finish_reason=finish, closed=bool(closed)),
            content=content.strip(),
            reasoning=reasoning.strip(),
            finish_reason=finish,
            usage=Usage(
                prompt_tokens=prompt,
                completion_tokens=len(thought.tokens),
                reasoning_tokens=len(locks.encode(reasoning)),
            ),
            endpoint="miniature",
            model=self._name,
            started_at=started,
            ended_at=time.time(),
        )
