"""Options that several verbs share, and what they add up to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from pacore.config import Budget, Config, Endpoint, choose_endpoint, convert, load_config
from pacore.errors import ConfigError
from pacore.sampling.embedded import EngineSettings
from pacore.types import SamplingParams

BaseUrl = Annotated[
    str | None, typer.Option(help="Address of the endpoint, up to /v1.", rich_help_panel="Endpoint")
]
Model = Annotated[str | None, typer.Option(help="Model to ask for.", rich_help_panel="Endpoint")]
ApiKeyEnv = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Environment variable with the API key.", rich_help_panel="Endpoint"),
]
EndpointName = Annotated[
    str | None,
    typer.Option(
        "--endpoint", metavar="NAME", help="An endpoint of pacore.toml.", rich_help_panel="Endpoint"
    ),
]
ConfigPath = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Instead of the nearest pacore.toml.")
]
ScheduleText = Annotated[
    str,
    typer.Option("--schedule", metavar="S", help="low, medium, high, widths such as 32,4, or a name."),
]
Seed = Annotated[int, typer.Option(help="Every random choice of the run follows from it.")]
Temperature = Annotated[float, typer.Option(min=0, help="Sampling temperature.")]
TopP = Annotated[float, typer.Option(help="Nucleus sampling.")]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="Cap on the tokens of one trajectory.")]
BudgetTokens = Annotated[int | None, typer.Option(min=1, help="Ceiling on the tokens of the whole run.")]
BudgetUsd = Annotated[
    float | None, typer.Option(help="Ceiling on the cost of the whole run, by the endpoint's prices.")
]
Deadline = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="Ceiling on the run's wall time; leaves the last round its part."),
]
Concurrency = Annotated[int | None, typer.Option(min=1, help="Calls in flight at once.")]
Gguf = Annotated[
    Path | None,
    typer.Option(metavar="PATH", help="Model file for the embedded engine.", rich_help_panel="Endpoint"),
]
Offline = Annotated[
    bool, typer.Option("--offline", help="Never fetch the bundled model.", rich_help_panel="Endpoint")
]


@dataclass(frozen=True, kw_only=True)
class EndpointChoice:
    """What the endpoint options of a command add up to; no endpoint means the embedded engine."""

    config: Config
    endpoint: Endpoint | None
    engine: EngineSettings

    @property
    def described(self) -> str:
        """The endpoint in a few words."""
        if self.endpoint is None:
            return "the embedded engine"
        return f"{self.endpoint.model or 'the only model'} at {self.endpoint.base_url}"


def choose(
    *,
    config_path: Path | None,
    name: str | None,
    base_url: str | None,
    model: str | None,
    api_key_env: str | None,
    gguf: Path | None,
    offline: bool,
) -> EndpointChoice:
    """Settle which endpoint a command talks to. Raises ConfigError for choices that contradict."""
    config = load_config(config_path)
    if gguf is not None:
        if base_url is not None or name is not None:
            raise ConfigError(
                "--gguf runs a model here and --base-url or --endpoint asks one elsewhere: give one"
            )
        endpoint = None
    else:
        endpoint = choose_endpoint(config, name=name, base_url=base_url, model=model, api_key_env=api_key_env)
    if endpoint is None and gguf is None and (model is not None or api_key_env is not None):
        raise ConfigError(
            f"--model {model} needs an endpoint: give --base-url, set OPENAI_BASE_URL, "
            "or write [endpoints.NAME] in pacore.toml"
            if model is not None
            else f"--api-key-env {api_key_env} needs an endpoint: give --base-url"
        )
    return EndpointChoice(config=config, endpoint=endpoint, engine=EngineSettings(gguf=gguf, offline=offline))


def endpoint_settings(choice: EndpointChoice) -> Any:
    """What of the endpoint decides the results, for the description of a directory."""
    endpoint = choice.endpoint
    if endpoint is None:
        return str(choice.engine.gguf) if choice.engine.gguf is not None else "embedded"
    return {"base_url": endpoint.base_url, "model": endpoint.model, "extra_body": endpoint.extra_body}


def sampling_of(temperature: float, top_p: float, max_tokens: int | None) -> SamplingParams:
    """Checked sampling parameters."""
    table = {"temperature": temperature, "top_p": top_p, "max_tokens": max_tokens}
    return convert(table, SamplingParams, "sampling")


def budget_of(
    tokens: int | None, usd: float | None, seconds: float | None, endpoint: Endpoint | None
) -> Budget:
    """A checked budget; money needs prices to be counted."""
    for option, value in (("--budget-usd", usd), ("--deadline", seconds)):
        if value is not None and value <= 0:
            raise ConfigError(f"{option} {value:g}: must be above 0")
    if usd is not None and (endpoint is None or endpoint.prices is None):
        raise ConfigError(
            "--budget-usd needs prices: write prices = {prompt = …, completion = …} (dollars per million "
            "tokens) into [endpoints.NAME] of pacore.toml"
        )
    return convert({"tokens": tokens, "usd": usd, "seconds": seconds}, Budget, "budget")
