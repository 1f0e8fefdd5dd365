"""What an endpoint serves is found out before the first call."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from pacore.config import Endpoint
from pacore.errors import ConfigError, EndpointRefusedError
from pacore.sampling.openai import EndpointSampler
from support.endpoint import MockEndpoint, Status


def listing(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"object": "list", "data": list(entries)}


@pytest.mark.parametrize(
    "entry",
    [{"max_model_len": 4096}, {"context_length": 4096}, {"context_window": 4096}, {"meta": {"n_ctx": 4096}}],
)
async def test_the_window_is_read_from_the_list_of_models(
    upstream: MockEndpoint, entry: dict[str, Any]
) -> None:
    upstream.models = listing({"id": "mock", **entry}, {"id": "other", "max_model_len": 1})
    async with EndpointSampler(upstream.endpoint()) as sampler:
        await sampler.probe()
        assert sampler.capabilities.window == 4096


async def test_a_configured_window_wins(upstream: MockEndpoint) -> None:
    upstream.models = listing({"id": "mock", "max_model_len": 4096})
    async with EndpointSampler(upstream.endpoint(window=2048)) as sampler:
        await sampler.probe()
        assert sampler.capabilities.window == 2048


async def test_the_only_model_needs_no_name(upstream: MockEndpoint) -> None:
    upstream.models = listing({"id": "qwen"})
    async with EndpointSampler(upstream.endpoint(model=None)) as sampler:
        await sampler.probe()
        assert sampler.model == "qwen"


async def test_among_several_models_one_must_be_named(upstream: MockEndpoint) -> None:
    upstream.models = listing({"id": "qwen"}, {"id": "glm"})
    async with EndpointSampler(upstream.endpoint(model=None)) as sampler:
        with pytest.raises(ConfigError, match="it serves 'qwen', 'glm'; pass --model NAME"):
            await sampler.probe()


async def test_a_model_that_is_not_served_is_told_with_those_that_are(upstream: MockEndpoint) -> None:
    upstream.models = listing({"id": "qwen"})
    async with EndpointSampler(upstream.endpoint(model="gwen")) as sampler:
        with pytest.raises(ConfigError, match="does not serve the model 'gwen'; it serves 'qwen'"):
            await sampler.probe()


@pytest.mark.parametrize(
    ("asked", "served"), [("qwen3", "qwen3:latest"), ("qwen3:free", "qwen3"), ("unlisted", None)]
)
async def test_tags_and_missing_lists_are_no_reason_to_refuse(
    upstream: MockEndpoint, asked: str, served: str | None
) -> None:
    upstream.models = listing({"id": served}) if served else None
    async with EndpointSampler(upstream.endpoint(model=asked)) as sampler:
        await sampler.probe()
        assert sampler.model == asked


async def test_the_check_can_be_switched_off(upstream: MockEndpoint) -> None:
    upstream.models = listing({"id": "qwen"})
    async with EndpointSampler(upstream.endpoint(model="alias", check_model=False)) as sampler:
        await sampler.probe()
        assert sampler.model == "alias"


async def test_a_refused_key_is_told_before_anything_is_spent(upstream: MockEndpoint) -> None:
    upstream.models = Status(401, {"error": {"message": "bad key"}})
    async with EndpointSampler(upstream.endpoint()) as sampler:
        with pytest.raises(EndpointRefusedError, match="bad key; check the API key"):
            await sampler.probe()


async def test_where_nothing_listens_the_sentence_says_so() -> None:
    async with MockEndpoint() as gone:
        endpoint = gone.endpoint()
    async with EndpointSampler(endpoint) as sampler:
        with pytest.raises(
            EndpointRefusedError, match=r"nothing answers at http://.* \(Connection refused\)"
        ):
            await sampler.probe()


async def test_a_server_that_takes_the_connection_and_says_nothing_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pacore.sampling.probe.PROBE_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = Endpoint(base_url=f"http://127.0.0.1:{silent.getsockname()[1]}/v1", model="mock")
        async with EndpointSampler(endpoint) as sampler:
            with pytest.raises(EndpointRefusedError, match=r"did not answer within 0\.05 s"):
                await sampler.probe()
