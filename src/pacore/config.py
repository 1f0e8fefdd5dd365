"""Settings: endpoints, budgets, retries, and the ``pacore.toml`` that names them."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from pacore.errors import ConfigError
from pacore.types import PositiveInt, Seconds

T = TypeVar("T")

CONFIG_FILE = "pacore.toml"
OPENAI_BASE_URL = "https://api.openai.com/v1"


class Timeouts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Deadlines of one call in seconds: to connect, to the first token, between tokens, and in all.

    ``first_token`` is generous, as servers queue; ``silence`` applies once tokens flow.
    """

    connect: Seconds = 10.0
    first_token: Seconds = 600.0
    silence: Seconds = 120.0
    call: Seconds = 7200.0


class Retries(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How transient failures are tried again.

    ``attempts`` counts the first one. Waits double from ``base_s`` to ``cap_s`` seconds, each drawn
    between half and the whole ("equal jitter"); an endpoint's Retry-After is waited for instead.
    """

    attempts: PositiveInt = 5
    base_s: Seconds = 0.5
    cap_s: Seconds = 60.0


class Prices(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices in US dollars per million tokens. ``cached`` defaults to the price of a prompt token."""

    prompt: Annotated[float, Meta(ge=0)] = 0.0
    completion: Annotated[float, Meta(ge=0)] = 0.0
    cached: Annotated[float, Meta(ge=0)] | None = None


class Endpoint(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An OpenAI-compatible chat endpoint and how to use it.

    base_url     up to and with ``/v1``.
    model        may be left out where the endpoint serves exactly one.
    api_key      the key itself; ``api_key_env`` names a variable that holds it. Never written to disk.
    concurrency  calls in flight at this endpoint; the run's own limit where it is left out.
    stream       ask for server-sent events; needed for live progress and for counting what a dropped
                 call had generated.
    window       the context window in tokens, where the endpoint does not say it.
    thinking     where the reasoning stands: ``separate`` field, ``inline`` in ``<think>`` tags, or
                 ``auto`` to find out.
    check_model  refuse a model that the endpoint does not list.
    headers, extra_body   sent with every call.
    """

    base_url: str
    model: str | None = None
    name: str = "default"
    api_key: str | None = None
    api_key_env: str | None = None
    concurrency: PositiveInt | None = None
    stream: bool = True
    window: PositiveInt | None = None
    thinking: Literal["auto", "separate", "inline"] = "auto"
    check_model: bool = True
    timeouts: Timeouts = Timeouts()
    retries: Retries = Retries()
    prices: Prices | None = None
    headers: dict[str, str] = {}
    extra_body: dict[str, Any] = {}

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.base_url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            # urllib's own complaint about ports and brackets does not show the address.
            usable = False
        if any("\n" in text or "\r" in text for pair in self.headers.items() for text in pair):
            raise ConfigError(f"a header of endpoint {self.name!r} holds a line break; remove it")
        if not usable:
            raise ConfigError(
                f"base_url {self.base_url!r} is no web address; it looks like http://127.0.0.1:8000/v1"
            )

    def key(self) -> str | None:
        """The API key, or ``None`` where none is configured.

        Raises ConfigError where ``api_key_env`` names a variable that is not set.
        """
        if self.api_key is not None:
            return self.api_key.strip()
        if self.api_key_env is None:
            return None
        key = os.environ.get(self.api_key_env, "").strip()
        if not key:
            raise ConfigError(f"the variable {self.api_key_env} that holds the API key is not set; export it")
        return key

    def public(self) -> dict[str, Any]:
        """The endpoint as it may be written to disk: without its key and without header values."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        del shown["api_key"]
        shown["headers"] = sorted(self.headers)
        return shown

    def __repr__(self) -> str:
        return f"Endpoint(name={self.name!r}, base_url={self.base_url!r}, model={self.model!r})"


class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hard ceilings over a whole run, each optional.

    tokens       generated tokens, all trajectories of all problems.
    usd          money, by the endpoints' prices.
    seconds      wall time.
    final_share  the part of ``seconds`` kept for the last round.
    """

    tokens: PositiveInt | None = None
    usd: Annotated[float, Meta(gt=0)] | None = None
    seconds: Annotated[float, Meta(gt=0)] | None = None
    final_share: Annotated[float, Meta(gt=0, lt=1)] = 0.25


class Config(Struct, frozen=True, kw_only=True):
    """The content of ``pacore.toml``. ``schedules`` stay tables until one is asked for."""

    endpoints: dict[str, Endpoint] = {}
    schedules: dict[str, dict[str, Any]] = {}
    default_endpoint: str | None = None
    path: Path | None = None

    def endpoint(self, name: str) -> Endpoint:
        """The endpoint called ``name``. Raises ConfigError, with the nearest name, where there is none."""
        if name in self.endpoints:
            return self.endpoints[name]
        raise ConfigError(
            unknown_name("endpoint", name, self.endpoints, f"[endpoints.{name}] in {CONFIG_FILE}")
        )


def load_config(path: Path | None = None) -> Config:
    """Read ``path``, or the nearest ``pacore.toml`` in this folder and those above; none gives defaults.

    Raises ConfigError naming the file and the key for anything that does not fit.
    """
    found = path or _nearest_config(Path.cwd())
    if found is None:
        return Config()
    try:
        table = tomllib.loads(found.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {found}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{found} is not TOML: {error}") from error
    known = {"endpoints", "schedules", "default_endpoint"}
    for key in table:
        if key not in known:
            raise ConfigError(f"{found}: {unknown_name('key', key, known)}")
    endpoints = table.get("endpoints", {})
    schedules = table.get("schedules", {})
    for kind, tables in (("endpoints", endpoints), ("schedules", schedules)):
        if not isinstance(tables, dict) or not all(isinstance(item, dict) for item in tables.values()):
            raise ConfigError(f"{found}: write each of the {kind} as a table [{kind}.NAME]")
    default = table.get("default_endpoint")
    if default is not None and not isinstance(default, str):
        raise ConfigError(f"{found}: default_endpoint is the name of an endpoint, not {default!r}")
    config = Config(
        endpoints={
            name: convert({"name": name, **item}, Endpoint, f"{found} [endpoints.{name}]")
            for name, item in endpoints.items()
        },
        schedules=schedules,
        default_endpoint=default,
        path=found,
    )
    if config.default_endpoint is not None:
        config.endpoint(config.default_endpoint)
    return config


def choose_endpoint(
    config: Config,
    *,
    name: str | None = None,
    base_url: str | None = None,
    model: str | None = None,
    api_key_env: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Endpoint | None:
    """The endpoint a run uses: given arguments, then the environment, then ``pacore.toml``.

    ``None`` where nothing is configured; the embedded engine answers then. An API key alone chooses
    no endpoint: calls that cost money are never a default.
    """
    environ = os.environ if environ is None else environ
    if name is not None:
        chosen = config.endpoint(name)
    else:
        env_url = environ.get("OPENAI_BASE_URL") or None
        has_key = bool(environ.get("OPENAI_API_KEY"))
        url = base_url or env_url
        if url is None and (default := _default_of(config)) is not None:
            chosen = default
        elif url is not None or (model is not None and has_key):
            key_env = "OPENAI_API_KEY" if has_key else None
            chosen = Endpoint(base_url=url or OPENAI_BASE_URL, api_key_env=key_env)
        else:
            return None
    changes = {"base_url": base_url, "model": model, "api_key_env": api_key_env}
    if api_key_env is not None:
        chosen = msgspec.structs.replace(chosen, api_key=None)
    return msgspec.structs.replace(
        chosen, **{key: value for key, value in changes.items() if value is not None}
    )


def convert(table: Mapping[str, Any], kind: type[T], place: str) -> T:
    """Check ``table`` against a Struct. Raises ConfigError that names the place, the key and the value."""
    try:
        return msgspec.convert(table, kind)
    except (msgspec.ValidationError, ConfigError) as error:
        raise ConfigError(f"{place}: {_explained(error, kind)}") from error


def checked(value: T, place: str) -> T:
    """``value``, a Struct made in Python, with its fields checked as if it had been read from a file.

    Raises ConfigError that names the place, the field and the value.
    """
    convert(msgspec.to_builtins(value), type(value), place)
    return value


def unknown_name(kind: str, name: str, known: Mapping[str, Any] | set[str], remedy: str = "") -> str:
    """A sentence for a name that is not there, with the nearest one that is."""
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(sorted(known)) or 'none'}"
    return f"there is no {kind} {name!r}{hint}" + (f" (define it as {remedy})" if remedy and not near else "")


def _explained(error: Exception, kind: type) -> str:
    text = str(error)
    unknown = re.search(r"unknown field `(.+?)`", text)
    if unknown and issubclass(kind, Struct) and " at `$" not in text:
        return f"{text}; {unknown_name('setting', unknown.group(1), set(kind.__struct_fields__))}"
    return text


def _nearest_config(folder: Path) -> Path | None:
    for place in (folder, *folder.parents):
        if (place / CONFIG_FILE).is_file():
            return place / CONFIG_FILE
    return None


def _default_of(config: Config) -> Endpoint | None:
    if config.default_endpoint is not None:
        return config.endpoint(config.default_endpoint)
    return next(iter(config.endpoints.values()), None)
