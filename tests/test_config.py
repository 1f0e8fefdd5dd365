"""Settings come from arguments, environment and pacore.toml, in this order, and mistakes are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pacore.config import Endpoint, choose_endpoint, load_config
from pacore.errors import ConfigError

TOML = """
default_endpoint = "lab"

[endpoints.local]
base_url = "http://127.0.0.1:8000/v1"
model = "small"

[endpoints.lab]
base_url = "http://10.0.0.1/v1"
model = "large"
api_key_env = "LAB_KEY"
prices = { prompt = 0.5, completion = 1.5 }
timeouts = { first_token = 30 }

[schedules.mine]
widths = [8, 2]
"""


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "pacore.toml"
    path.write_text(TOML)
    return path


def test_the_nearest_file_above_is_read(config_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = config_file.parent / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    config = load_config()
    assert config.path == config_file
    assert config.endpoints["lab"].timeouts.first_token == 30
    assert config.schedules["mine"] == {"widths": [8, 2]}


def test_arguments_come_before_environment_before_the_file(config_file: Path) -> None:
    config = load_config(config_file)
    env = {"OPENAI_BASE_URL": "http://env/v1", "OPENAI_API_KEY": "k"}

    def chosen(**arguments: Any) -> Endpoint:
        endpoint = choose_endpoint(config, **arguments)
        assert endpoint is not None
        return endpoint

    assert chosen(environ={}).name == "lab"
    assert chosen(environ=env).base_url == "http://env/v1"
    assert chosen(environ=env, base_url="http://arg/v1").base_url == "http://arg/v1"
    assert chosen(environ=env, name="local").model == "small"
    assert chosen(environ={}, model="other").model == "other"
    assert chosen(environ={}, model="other").name == "lab"


def test_with_nothing_configured_there_is_no_endpoint_and_a_key_alone_chooses_none(tmp_path: Path) -> None:
    config = load_config()
    assert choose_endpoint(config, environ={}) is None
    assert choose_endpoint(config, environ={"OPENAI_API_KEY": "k"}) is None
    openai = choose_endpoint(config, environ={"OPENAI_API_KEY": "k"}, model="gpt")
    assert openai is not None
    assert openai.base_url.startswith("https://api.openai.com")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("endpoints = 3", r"table \[endpoints.NAME\]"),
        ("[endpoint.x]\n", "did you mean 'endpoints'"),
        ('[endpoints.x]\nbase_ur = "http://a/v1"', "did you mean 'base_url'"),
        ('[endpoints.x]\nbase_url = "localhost:8000"', "'localhost:8000' is no web address"),
        ('[endpoints.x]\nbase_url = "http://a/v1"\nconcurrency = 0', "Expected `int` >= 1"),
        ('[endpoints.x]\nmodel = "m"', "missing required field `base_url`"),
        ('default_endpoint = "x"', "no endpoint 'x'"),
        ("a = [", "is not TOML"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "pacore.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        load_config(path)


def test_a_key_comes_from_the_variable_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint(base_url="http://a/v1", api_key_env="LAB_KEY")
    with pytest.raises(ConfigError, match="LAB_KEY that holds the API key is not set"):
        endpoint.key()
    monkeypatch.setenv("LAB_KEY", "sk-1")
    assert endpoint.key() == "sk-1"


def test_a_key_is_never_shown() -> None:
    endpoint = Endpoint(base_url="http://a/v1", api_key="sk-secret", headers={"X-Token": "sk-secret"})
    assert "sk-secret" not in repr(endpoint)
    assert b"sk-secret" not in msgspec.json.encode(endpoint.public())
