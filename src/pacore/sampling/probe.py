"""Finding out what an endpoint serves before the first call: its models and its context window."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec

from pacore.config import Endpoint, unknown_name
from pacore.errors import ConfigError, EndpointRefusedError
from pacore.sampling.sampler import Capabilities
from pacore.sampling.wire import error_text

PROBE_SECONDS = 20.0


async def probe_endpoint(
    session: aiohttp.ClientSession, endpoint: Endpoint, headers: Mapping[str, str], capabilities: Capabilities
) -> str:
    """Fill ``capabilities`` from the endpoint's own lists and return the model to ask for.

    An endpoint without a list of models is taken at its word; the first call will tell.
    Raises EndpointRefusedError where nothing answers or the key is refused, ConfigError where the
    model must be named or is not served.
    """
    listing = await _get(session, endpoint, "/models", headers)
    models = [item for item in _items(listing) if isinstance(item, dict) and item.get("id")]
    capabilities.served_models = tuple(str(item["id"]) for item in models)
    model = _chosen_model(endpoint, capabilities.served_models)
    entry = next((item for item in models if item["id"] == model), models[0] if len(models) == 1 else {})
    if capabilities.window is None:
        capabilities.window = _window_of(entry)
    if capabilities.window is None and entry.get("owned_by") == "llamacpp":
        props = await _get(session, endpoint, "/props", headers)
        capabilities.window = _window_of_props(props)
    return model


def _chosen_model(endpoint: Endpoint, served: tuple[str, ...]) -> str:
    model = endpoint.model
    if model is None:
        if len(served) == 1:
            return served[0]
        listed = f"it serves {_listed(served)}" if served else "it does not list its models"
        raise ConfigError(f"which model? {endpoint.base_url} needs a name and {listed}; pass --model NAME")
    if not served or not endpoint.check_model or model in served:
        return model
    # Tags are optional where the name is unique: Ollama's ":latest", OpenRouter's ":free".
    if any(name.split(":")[0] == model.split(":")[0] for name in served if ":" in name or ":" in model):
        return model
    hint = unknown_name("model", model, set(served)) if len(served) > 8 else f"it serves {_listed(served)}"
    raise ConfigError(
        f"{endpoint.base_url} does not serve the model {model!r}; {hint} "
        "(--model NAME; check_model = false in pacore.toml skips this check)"
    )


def _listed(served: tuple[str, ...]) -> str:
    shown = ", ".join(repr(name) for name in served[:8])
    return shown + (f" and {len(served) - 8} more" if len(served) > 8 else "")


async def _get(
    session: aiohttp.ClientSession, endpoint: Endpoint, path: str, headers: Mapping[str, str]
) -> Any:
    base = endpoint.base_url.rstrip("/")
    # llama.cpp's /props stands beside /v1, not below it.
    url = base.removesuffix("/v1") + path if path == "/props" else base + path
    try:
        async with (
            asyncio.timeout(PROBE_SECONDS),
            session.get(url, headers={**headers, "Accept": "application/json"}) as response,
        ):
            data = await response.read()
            if response.status in (401, 402, 403):
                said = error_text(_decoded(data), response.reason or "")
                raise EndpointRefusedError(
                    f"{url} answered {response.status}: {said}; check the API key (--api-key-env NAME)",
                    status=response.status,
                )
            return _decoded(data) if response.status == 200 else None
    except TimeoutError as error:
        raise EndpointRefusedError(
            f"{url} took the connection and did not answer within {PROBE_SECONDS:g} s; "
            "is the server still loading?"
        ) from error
    except (aiohttp.ClientError, OSError) as error:
        raise EndpointRefusedError(
            f"nothing answers at {endpoint.base_url} ({connection_trouble(error)}); "
            "start the server or correct --base-url"
        ) from error


def connection_trouble(error: BaseException) -> str:
    """Why there is no connection, in the system's words: "Connection refused" and the like."""
    cause = getattr(error, "os_error", error)
    number = getattr(cause, "errno", None)
    # Name look-ups fail with negative numbers of their own, whose words are in strerror.
    if isinstance(number, int) and number > 0:
        return os.strerror(number)
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return None


def _items(listing: Any) -> list[Any]:
    items = listing.get("data") if isinstance(listing, dict) else listing
    return items if isinstance(items, list) else []


def _window_of(entry: Mapping[str, Any]) -> int | None:
    """The window in a model's entry: vLLM and SGLang, OpenRouter, Groq, llama.cpp, in this order."""
    meta = entry.get("meta")
    candidates = [entry.get(key) for key in ("max_model_len", "context_length", "context_window")]
    candidates.append(meta.get("n_ctx") if isinstance(meta, dict) else None)
    return next((value for value in candidates if isinstance(value, int) and value > 0), None)


def _window_of_props(props: Any) -> int | None:
    settings = props.get("default_generation_settings") if isinstance(props, dict) else None
    window = settings.get("n_ctx") if isinstance(settings, dict) else None
    return window if isinstance(window, int) and window > 0 else None
