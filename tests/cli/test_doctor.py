"""``pacore doctor``: what is seen, and one real call."""

from __future__ import annotations

from support.command import pacore
from support.endpoint import Answer, MockEndpoint, Status


async def test_endpoint_model_window_and_one_call_are_told(upstream: MockEndpoint) -> None:
    upstream.models = {"data": [{"id": "qwen", "max_model_len": 4096}]}
    upstream.behaviour = lambda body: Answer("4", reasoning="2 + 2")
    outcome = await pacore("doctor", "--base-url", upstream.url)
    assert outcome.status == 0
    for words in (
        "sandbox: bubblewrap",
        "models served: qwen",
        "context window: 4096",
        "reasoning: reasoning_content",
        "it said: '4'",
    ):
        assert words in outcome.out
    assert "usage: counted by the endpoint" in outcome.out
    assert len(upstream.requests) == 1


async def test_a_call_that_fails_is_told_with_status_1(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Status(400, {"error": {"message": "no chat template"}})
    outcome = await pacore("doctor", "--base-url", upstream.url, "--model", "m")
    assert outcome.status == 1
    assert "no chat template" in outcome.err
