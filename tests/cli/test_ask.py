"""``pacore ask``: the answer on stdout, all else on stderr, one sentence for what is wrong."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from pacore.traces.trace import read_trace
from support.command import pacore, start
from support.endpoint import Answer, Hang, MockEndpoint, Status, reads_references


async def test_the_answer_alone_is_on_stdout(upstream: MockEndpoint, tmp_path: Path) -> None:
    upstream.behaviour = lambda body: "It is 24." if reads_references(body) else f"{body['seed']}"
    outcome = await pacore("ask", "How many?", "--base-url", upstream.url, "--model", "m", cwd=tmp_path)
    assert (outcome.status, outcome.out) == (0, "It is 24.\n")
    assert "35 tokens · 5 calls" in outcome.err
    (trace,) = (tmp_path / "state").rglob("*.jsonl")
    assert str(trace) in outcome.err
    assert read_trace(trace).result is not None


async def test_json_prints_the_whole_result(upstream: MockEndpoint, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    outcome = await pacore(
        *("ask", "How many?", "--base-url", upstream.url, "--model", "m", "--schedule", "2,1", "--json"),
        *("--trace", str(trace), "--quiet"),
    )
    result = json.loads(outcome.out)
    keys = {"id", "status", "answer", "finish_reason", "ttc_tokens", "usage", "calls", "wall_s", "warnings"}
    assert keys <= set(result)
    assert set(result["usage"]) == {
        "prompt_tokens",
        "completion_tokens",
        "reasoning_tokens",
        "cached_tokens",
        "estimated",
    }
    assert result["calls"] == {"made": 4, "failed": 0, "cancelled": 0}
    assert "round 1" not in outcome.err
    assert trace.exists()


async def test_options_reach_the_endpoint(upstream: MockEndpoint) -> None:
    await pacore(
        *("ask", "How many?", "--base-url", upstream.url, "--model", "m", "--schedule", "single"),
        *("--temperature", "0.3", "--top-p", "0.8", "--max-tokens", "50", "--api-key-env", "MY_KEY"),
        MY_KEY="sk-1",
    )
    (body,) = upstream.requests
    assert (body["model"], body["temperature"], body["top_p"], body["max_tokens"]) == ("m", 0.3, 0.8, 50)
    assert upstream.headers[0]["Authorization"] == "Bearer sk-1"


async def test_environment_and_configuration_are_enough(upstream: MockEndpoint, tmp_path: Path) -> None:
    outcome = await pacore(
        "ask", "How many?", "--model", "m", cwd=tmp_path, OPENAI_BASE_URL=upstream.url, OPENAI_API_KEY="sk-2"
    )
    assert outcome.status == 0
    assert upstream.headers[0]["Authorization"] == "Bearer sk-2"
    (tmp_path / "pacore.toml").write_text(
        f'[endpoints.here]\nbase_url = "{upstream.url}"\nmodel = "m"\n[schedules.duo]\nwidths = [2]\n'
    )
    upstream.requests.clear()
    outcome = await pacore("ask", "How many?", "--schedule", "duo", cwd=tmp_path)
    assert outcome.status == 0
    assert len(upstream.requests) == 3


async def test_a_failed_answer_prints_nothing_on_stdout_and_ends_with_2(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Status(400, {"error": {"message": "engine says no"}})
    outcome = await pacore("ask", "How many?", "--base-url", upstream.url, "--model", "m")
    assert (outcome.status, outcome.out) == (2, "")
    assert "engine says no" in outcome.err


async def test_a_degraded_answer_is_marked_and_ends_with_2(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Answer("half", finish_reason="length")
    outcome = await pacore(
        "ask", "How many?", "--base-url", upstream.url, "--model", "m", "--schedule", "single"
    )
    assert (outcome.status, outcome.out) == (2, "half\n")
    assert "degraded: " in outcome.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ask"], "Missing argument"),
        (["ask", " "], "the question is empty"),
        (["ask", "q", "--schedule", "hgih", "--base-url", "http://a/v1"], "did you mean 'high'"),
        (["ask", "q", "--temperature", "-1", "--base-url", "http://a/v1"], "--temperature"),
        (["ask", "q", "--base-url", "localhost"], "'localhost' is no web address"),
        (["ask", "q", "--base-url", "http://127.0.0.1:9/v1"], "nothing answers at http://127.0.0.1:9/v1"),
        (["ask", "q", "--model", "x"], "--model x needs an endpoint"),
        (["ask", "q", "--endpoint", "lab"], "there is no endpoint 'lab'"),
        (["ask", "q", "--gguf", "none.gguf"], "there is no model file none.gguf"),
        (["ask", "q", "--gguf", "x", "--base-url", "http://a/v1"], "give one"),
        (["ask", "q", "--budget-usd", "1", "--base-url", "http://a/v1"], "--budget-usd needs prices"),
        (["ask", "q", "--offline"], "--offline forbids fetching it"),
        (["ask", "q", "--nonsense"], "No such option"),
        (["nonsense"], "No such command"),
    ],
)
async def test_what_is_wrong_is_one_sentence_and_status_1(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    outcome = await pacore(*arguments, cwd=tmp_path, PACORE_CACHE=str(tmp_path / "cache"))
    assert (outcome.status, outcome.out) == (1, "")
    assert words in outcome.err
    assert outcome.err.startswith("pacore: ")
    assert outcome.err.count("\n") == 1


async def test_ctrl_c_ends_cleanly_and_keeps_the_trace(upstream: MockEndpoint, tmp_path: Path) -> None:
    upstream.behaviour = lambda body: Hang() if reads_references(body) else f"{body['seed']}"
    trace = tmp_path / "t.jsonl"
    process = await start("ask", "q", "--base-url", upstream.url, "--model", "m", "--trace", str(trace))
    await upstream.wait_for_requests(5)
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert len(read_trace(trace).rounds[1].trajectories) == 4
    await upstream.wait_for_disconnects(1)
