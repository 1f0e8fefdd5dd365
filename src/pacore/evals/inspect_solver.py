"""PaCoRe inside of Inspect: a solver for any of its tasks, over whatever model the task runs on.

    from inspect_ai import Task, eval
    from pacore.evals.inspect_solver import pacore_solver

    eval(Task(dataset=…, solver=pacore_solver("low"), scorer=…), model="openai/gpt-…")

The calls are Inspect's own, so its limits, caches, retries and logs hold for every trajectory.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    GenerateConfig,
    Model,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver

from pacore.coordination.loop import coordinate
from pacore.coordination.rounds import RunContext
from pacore.coordination.schedules import ScheduleLike, parse_schedule
from pacore.events import RunFinished
from pacore.problems import read_problem
from pacore.sampling.sampler import Call, Capabilities, Watcher, classify
from pacore.sampling.thinking import split_thinking
from pacore.types import Result, SamplingParams, Trajectory, Usage
from pacore.verifiers.math.equivalence import MathEquivalence


@solver
def pacore_solver(
    schedule: ScheduleLike = "low",
    *,
    model: str | Model | None = None,
    seed: int = 0,
    sampling: SamplingParams | None = None,
) -> Solver:
    """Answer by a schedule: its rounds of parallel trajectories, each a call of Inspect's model.

    ``model`` is the task's own where none is given. The Result's account is in the sample's metadata under
    ``pacore``. Temperature 1 is the method's, whatever the task's configuration says; give ``sampling`` for
    another. A run without an answer leaves an empty completion.
    """
    chosen = parse_schedule(schedule)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        sampler = InspectSampler(get_model(model))
        problem = read_problem(
            {"id": str(state.sample_id), "messages": [_plain(message) for message in state.messages]}
        )
        context = RunContext(
            samplers={"default": sampler},
            equivalence=MathEquivalence(),
            seed=seed + state.epoch - 1,
            sampling=sampling or SamplingParams(),
            progress=False,
        )
        result: Result | None = None
        async for event in coordinate(problem, chosen, context):
            if isinstance(event, RunFinished):
                result = event.result
        assert result is not None, "every run ends with RunFinished"
        state.output = _output(result, sampler.name)
        state.messages.append(state.output.choices[0].message)
        account = result.record()
        state.metadata["pacore"] = {
            key: account[key] for key in ("status", "ttc_tokens", "usage", "calls", "agreement", "warnings")
        }
        return state

    return solve


class InspectSampler:
    """A model of Inspect as a source of trajectories."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name = str(model)
        self._capabilities = Capabilities()

    @property
    def capabilities(self) -> Capabilities:
        """Nothing is known of the endpoint; Inspect looks after it."""
        return self._capabilities

    async def sample(self, call: Call, watcher: Watcher) -> Trajectory:
        """Generate one trajectory with Inspect's model."""
        watcher.started()
        begun = time.time()
        sampling = call.sampling
        config = GenerateConfig(
            temperature=sampling.temperature,
            top_p=sampling.top_p if sampling.top_p < 1 else None,
            max_tokens=sampling.max_tokens,
            stop_seqs=list(sampling.stop) or None,
            seed=call.seed,
            extra_body=dict(sampling.extra) or None,
        )
        # Trajectories that share a prompt must not share an answer of Inspect's cache.
        output = await self._model.generate(
            [_rich(message) for message in call.prompt.messages], config=config, cache=False
        )
        content, reasoning = _texts(output)
        split = split_thinking(content)
        reasoning = reasoning or split.reasoning
        finish_reason = {"max_tokens": "length", "model_length": "length"}.get(
            output.stop_reason, str(output.stop_reason)
        )
        watcher.text(split.conclusion, reasoning)
        return call.trajectory(
            classify(split.conclusion, reasoning, finish_reason=finish_reason, closed=split.closed),
            content=split.conclusion,
            reasoning=reasoning,
            finish_reason=finish_reason,
            usage=_usage(output.usage),
            endpoint="inspect",
            model=output.model,
            started_at=begun,
            ended_at=time.time(),
            error=output.error,
        )


def _texts(output: ModelOutput) -> tuple[str, str]:
    if not output.choices:
        return "", ""
    content = output.choices[0].message.content
    if isinstance(content, str):
        return content, ""
    reasoning = "".join(part.reasoning for part in content if part.type == "reasoning")
    return "".join(part.text for part in content if part.type == "text"), reasoning


def _usage(usage: ModelUsage | None) -> Usage:
    if usage is None:
        return Usage(estimated=True)
    return Usage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        reasoning_tokens=usage.reasoning_tokens or 0,
        cached_tokens=usage.input_tokens_cache_read or 0,
    )


def _output(result: Result, model: str) -> ModelOutput:
    output = ModelOutput.from_content(model, result.answer or "")
    usage = result.usage
    output.usage = ModelUsage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        input_tokens_cache_read=usage.cached_tokens,
    )
    return output


def _plain(message: Any) -> dict[str, Any]:
    role = message.role
    return {"role": role, "content": message.text}


def _rich(message: Mapping[str, Any]) -> Any:
    kinds: dict[str, Any] = {
        "system": ChatMessageSystem,
        "developer": ChatMessageSystem,
        "assistant": ChatMessageAssistant,
        "tool": ChatMessageTool,
    }
    return kinds.get(message["role"], ChatMessageUser)(content=message.get("content") or "")
