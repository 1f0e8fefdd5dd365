"""``pacore doctor``: what pacore sees here, and whether one real call works."""

from __future__ import annotations

import asyncio
import importlib.util
import platform
import time

import typer

from pacore.cli import options
from pacore.cli.progress import say
from pacore.errors import EndpointError, SandboxError
from pacore.problems import read_problem
from pacore.sampling.bundled_model import cached_model
from pacore.sampling.sampler import Call, Capabilities, Prompt
from pacore.session import DEFAULT, open_session
from pacore.types import SamplingParams, Trajectory
from pacore.verifiers.sandbox.choose import find_sandbox
from pacore.version import __version__

_EXTRAS = {"embedded": "xllamacpp", "verify": "math_verify"}
_QUESTION = "What is 2 + 2?"


class _FirstText:
    """Notes when the first text came."""

    def __init__(self) -> None:
        self.at: float | None = None

    def started(self) -> None:
        """Nothing to note."""

    def text(self, content: str, reasoning: str) -> None:
        """Text came."""
        if self.at is None:
            self.at = time.monotonic()

    def retrying(self, attempt: int, reason: str, wait_s: float, generated_tokens: int) -> None:
        """Tell the user why it takes long."""
        say(f"  attempt {attempt} failed: {reason}; again in {wait_s:.1f} s")


def doctor(
    base_url: options.BaseUrl = None,
    model: options.Model = None,
    api_key_env: options.ApiKeyEnv = None,
    endpoint: options.EndpointName = None,
    config: options.ConfigPath = None,
    gguf: options.Gguf = None,
    offline: options.Offline = False,
) -> None:
    """Say which endpoint, model, window and extras are seen, and make one real call."""
    print(
        f"pacore {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    )
    for extra, module in _EXTRAS.items():
        there = importlib.util.find_spec(module) is not None
        print(f"extra {extra}: {'installed' if there else f'missing (pip install pacore[{extra}])'}")
    print(f"sandbox: {_sandbox()}")
    print(f"bundled model: {cached_model() or 'not fetched yet'}")
    choice = options.choose(
        config_path=config,
        name=endpoint,
        base_url=base_url,
        model=model,
        api_key_env=api_key_env,
        gguf=gguf,
        offline=offline,
    )
    print(f"configuration: {choice.config.path or 'no pacore.toml here or above'}")
    print(f"endpoint: {choice.described}")
    asyncio.run(_call(choice))


def _sandbox() -> str:
    try:
        return find_sandbox().described
    except SandboxError as error:
        return f"none. {error}"


async def _call(choice: options.EndpointChoice) -> None:
    async with open_session(choice.endpoint, engine=choice.engine, report=say) as session:
        sampler = session.samplers[DEFAULT]
        seen = sampler.capabilities
        print(f"models served: {', '.join(seen.served_models) or 'not told'}")
        print(f"context window: {seen.window or 'not told'}")
        problem = read_problem(_QUESTION)
        call = Call(
            problem_id=problem.id,
            round=1,
            index=0,
            prompt=Prompt(problem.messages),
            sampling=SamplingParams(max_tokens=64),
            seed=1,
        )
        first = _FirstText()
        begun = time.monotonic()
        trajectory = await sampler.sample(call, first)
        _report_call(trajectory, seen, first.at, begun)


def _report_call(trajectory: Trajectory, seen: Capabilities, first_at: float | None, begun: float) -> None:
    if trajectory.status == "failed":
        raise EndpointError(f"the call failed: {trajectory.error}")
    seconds = time.monotonic() - begun
    first = f", first text after {first_at - begun:.2f} s" if first_at is not None else ""
    print(f"one call: {trajectory.usage.completion_tokens} tokens in {seconds:.2f} s{first}")
    print(f"model that answered: {trajectory.model or 'not told'}")
    print(f"reasoning: {seen.reasoning_field or 'no separate field seen'}")
    counted = "estimated by pacore" if trajectory.usage.estimated else "counted by the endpoint"
    print(f"usage: {counted}")
    refused = ", ".join(sorted(seen.unsupported)) or "none"
    print(f"parameters it refuses: {refused}")
    shown = " ".join((trajectory.content or trajectory.reasoning).split())[:120]
    print(f"it said: {shown!r} ({trajectory.status})")
    raise typer.Exit(0)
